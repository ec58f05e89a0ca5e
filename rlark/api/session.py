"""Who signed in with a browser: session cookies and one-time links, both signed with a key made of the token.

Nothing of a session is stored, so every replica knows it, and a new token ends all of them. Only which
links were used is remembered, as empty files that disappear with the links.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rlark.api.token import TokenFile
from rlark.host.clock import Clock

SESSION_S = 12 * 3600
LINK_S = 60


class Link(Enum):
    """What a one-time link is worth."""

    GOOD = "good"
    USED = "used"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Sessions:
    """Makes and checks cookies and links.

    Attributes:
        token: what they are signed with.
        used: the folder that remembers which links were used.
        clock: the time.
    """

    token: TokenFile
    used: Path
    clock: Clock

    def cookie(self, host: str) -> tuple[str, str]:
        """The name and the value of a new session's cookie.

        Args:
            host: the Host that the browser asked, with its port; the session is good there only.
        """
        expires, nonce = int(self._now()) + SESSION_S, secrets.token_hex(16)
        return cookie_name(host), f"{expires}.{nonce}.{self._sign('session', host.lower(), str(expires), nonce)}"

    def good(self, host: str, value: str) -> bool:
        """Whether a cookie is one of ours, made for this Host under the token of today, and not too old."""
        expires, _, rest = value.partition(".")
        nonce, _, given = rest.partition(".")
        signed = hmac.compare_digest(
            given.encode(errors="replace"), self._sign("session", host.lower(), expires, nonce).encode()
        )
        return signed and self.token.there and expires.isdecimal() and int(expires) > self._now()

    def link(self, to: str) -> tuple[str, int]:
        """A new link's code, and when it expires in seconds since the epoch.

        Args:
            to: the path it leads to.
        """
        expires = int(self._now()) + LINK_S
        body = json.dumps([to, expires, secrets.token_hex(16)], separators=(",", ":")).encode()
        text = base64.urlsafe_b64encode(body).decode().rstrip("=")
        return f"{text}.{self._sign('link', text)}", expires

    def follow(self, code: str) -> tuple[Link, str]:
        """Use a link: what it is worth, and where it leads. It is good only once, in whichever replica.

        Raises:
            OSError: it cannot be remembered that it was used, so it is not.
        """
        text, _, given = code.partition(".")
        signed = hmac.compare_digest(given.encode(errors="replace"), self._sign("link", text).encode())
        if not signed or not self.token.there:
            return Link.UNKNOWN, "/"
        to, expires, nonce = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if expires <= self._now():
            return Link.EXPIRED, to
        return (Link.GOOD if self._first(f"{expires}-{nonce}") else Link.USED), to

    def _first(self, name: str) -> bool:
        self.used.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._forget()
        try:
            os.close(os.open(self.used / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        return True

    def _forget(self) -> None:
        """Remove what says that links were used which have expired since."""
        for path in self.used.iterdir():
            expires = path.name.partition("-")[0]
            if expires.isdecimal() and int(expires) < self._now() - LINK_S:
                path.unlink(missing_ok=True)

    def _sign(self, *parts: str) -> str:
        return self.token.sign("\n".join(parts))

    def _now(self) -> float:
        return self.clock.now().timestamp()


def cookie_name(host: str) -> str:
    """A name for each Host: browsers do not keep the cookies of two ports of a host apart."""
    return f"rlark_session_{hashlib.sha256(host.lower().encode(errors='replace')).hexdigest()[:8]}"
