"""The platform's token: compared with, and signed with; never shown."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

_PURPOSE = b"rlark signs what browsers keep"


class TokenFile:
    """The token in its file; read again when the file was changed (`rlark token rotate`)."""

    def __init__(self, path: Path) -> None:
        """Name the file; it need not be there yet."""
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._token = b""

    @property
    def there(self) -> bool:
        """Whether there is a token; without one nobody comes in."""
        return bool(self._read())

    def matches(self, given: str) -> bool:
        """Compare in constant time; without a token in the file nothing matches."""
        token = self._read()
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token) and bool(token)

    def sign(self, text: str) -> str:
        """A signature that only who knows the token can make: 64 hexadecimal digits."""
        key = hmac.digest(self._read(), _PURPOSE, hashlib.sha256)
        return hmac.new(key, text.encode(errors="replace"), hashlib.sha256).hexdigest()

    def _read(self) -> bytes:
        try:
            state = self._path.stat()
            seen = (state.st_mtime_ns, state.st_size, state.st_ino)
            if seen != self._seen:
                self._token = self._path.read_bytes().strip()
                self._seen = seen
        except OSError:
            self._token, self._seen = b"", None
        return self._token
