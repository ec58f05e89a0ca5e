"""What a secret looks like: the rules of detect-secrets, and those that its users here need besides.

Nothing is looked up anywhere, and nothing is verified with whoever issued it. The library is imported
only for a text that could hold something of what it knows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

PRIVATE_KEY, TOKEN, PASSWORD, RANDOM = "RL350", "RL351", "RL352", "RL353"

_LONGEST_LINE = 4096
"""Characters of a line that are looked at in one go; longer lines are taken in overlapping pieces."""
_OVERLAP = 512
_MOST_IN_LINE = 100
"""Secrets told of one line; a line of nothing else is no script."""

_WORTH = re.compile(
    r"PRIVATE KEY|PuTTY-User|SECRET-KEY|AccountKey=|://[^\s/]*:[^\s/]*@|sshpass|wandb\s+login|hooks\.slack"
    r"|xox|_authToken|[A-Z]{16}|[0-9]{8}:|(?=[A-Z0-9]{0,80}[0-9])[A-Z0-9]{14}|(?=[a-z0-9]{0,80}[0-9])[a-z0-9]{14}"
    r"|(?=[A-Za-z0-9_-]{0,80}[0-9])(?=[A-Za-z0-9_-]{0,80}[a-z])(?=[A-Za-z0-9_-]{0,80}[A-Z])[A-Za-z0-9_-]{14}"
)
"""What every secret of a known form has: many letters and digits in a row. Most lines of a Job do not."""
_NAMED = re.compile(r"pass|pwd|secret|token|key|credential|bearer|authorization|contrase|--user|\s-u", re.IGNORECASE)
"""What every name of a secret has."""
_NAMES_END = re.compile(
    r"(?:pass(?:wd|word|phrase)?|pwd|secret|token|key|credentials?|contrase..?)[0-9]*$", re.IGNORECASE
)
"""What every name of a secret ends in."""

_VALUE = r"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'`;|&<>(){}\[\],]+)(?P<called>[(\[])?)"""
_ASSIGNED = re.compile(
    r"""(?P<name>-{0,2}[A-Za-z_][A-Za-z0-9_.-]{0,80})["']?\]?(?P<sign>\s?(?::=|=>|==?|:)\s?|(?<=[A-Za-z])[ ])"""
    + _VALUE
)
_TOLD: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (TOKEN, "a Weights & Biases key", re.compile(r"wandb\s+login\s+(?:--?[a-z-]+\s+)*([A-Za-z0-9_-]{20,})")),
    (PASSWORD, "a password", re.compile(r"sshpass\s+-p\s*[\"']?([^\s\"']+)")),
    (PASSWORD, "a password", re.compile(r"\bcurl\b.*?\s(?:-u|--user)[ =]?[\"']?[^\s:\"'@/]+:([^\s\"'@]+)")),
    (
        TOKEN,
        "an authorization header",
        re.compile(r"(?i)authorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+([^\s\"']+)"),
    ),
    (TOKEN, "an object-store key", re.compile(r"(?i)aws_secret_access_key\s+[\"']?([A-Za-z0-9/+]{16,})")),
)  # fmt: skip
_OURS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (PRIVATE_KEY, "a private key", re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")),
    (PRIVATE_KEY, "a private key", re.compile(r"AGE-SECRET-KEY-1[A-Z0-9]{20,}")),
    (TOKEN, "a Hugging Face token", re.compile(r"(?<![A-Za-z0-9_])(?:hf|api_org)_[A-Za-z0-9]{20,}")),
    (TOKEN, "a GitHub token", re.compile(r"(?<![A-Za-z0-9_])github_pat_[A-Za-z0-9_]{22,}")),
    (TOKEN, "an API key", re.compile(r"(?<![A-Za-z0-9_.-])sk-(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{20,}")),
    (TOKEN, "a Weights & Biases key", re.compile(r"(?<![A-Za-z0-9_])wandb_v1_[A-Za-z0-9_]{20,}")),
    (TOKEN, "a Google API key", re.compile(r"(?<![A-Za-z0-9_-])AIza[A-Za-z0-9_-]{35}")),
    (TOKEN, "an object-store key", re.compile(r"(?<![A-Za-z0-9])LTAI[A-Za-z0-9]{16,24}(?![A-Za-z0-9])")),
    (TOKEN, "an object-store key", re.compile(r"(?<![A-Za-z0-9])AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])")),
    (TOKEN, "a Docker Hub token", re.compile(r"(?<![A-Za-z0-9_])dckr_pat_[A-Za-z0-9_-]{20,}")),
)  # fmt: skip
_PLUGINS = (
    ("private_key", "PrivateKeyDetector", PRIVATE_KEY, "a private key"),
    ("aws", "AWSKeyDetector", TOKEN, "an AWS key"),
    ("github_token", "GitHubTokenDetector", TOKEN, "a GitHub token"),
    ("gitlab_token", "GitLabTokenDetector", TOKEN, "a GitLab token"),
    ("slack", "SlackDetector", TOKEN, "a Slack token"),
    ("stripe", "StripeDetector", TOKEN, "a Stripe key"),
    ("openai", "OpenAIDetector", TOKEN, "an API key"),
    ("npm", "NpmDetector", TOKEN, "an npm token"),
    ("pypi_token", "PypiTokenDetector", TOKEN, "a package index token"),
    ("azure_storage_key", "AzureStorageKeyDetector", TOKEN, "an object-store key"),
    ("sendgrid", "SendGridDetector", TOKEN, "a SendGrid key"),
    ("discord", "DiscordBotTokenDetector", TOKEN, "a Discord token"),
    ("telegram_token", "TelegramBotTokenDetector", TOKEN, "a Telegram token"),
    ("jwt", "JwtTokenDetector", TOKEN, "a JSON Web Token"),
    ("basic_auth", "BasicAuthDetector", PASSWORD, "a password in an address"),
)
"""Module and class of detect-secrets, and what a match is called here."""

_WORDS = r"access_?key|secret_?key|session_?key|encryption_?key|signing_?key|ssh_?key|passphrase|credentials?|token"
_PASSWORDS = re.compile(r"(?:pass(?:wd|word|phrase)?|pwd|contrase[nñ]a)[0-9]*$", re.IGNORECASE)
_SHORT_PASS = re.compile(r"(?:^|[a-z0-9]_)p(?:ass|wd)[0-9]*$", re.IGNORECASE)
_PASS_OF = re.compile(
    r"(?:db|database|user|root|admin|ssh|smtp|ftp|pg|mysql|postgres|redis|mongo|minio|key)_p(?:ass|wd)[0-9]*$",
    re.IGNORECASE,
)
_VOCABULARY = re.compile(
    r"(?:eos|bos|pad|unk|mask|sep|cls|stop|start|end|begin|image|img|video|audio|action|state|special|think|boi|eoi"
    r"|per|each|new|next|last|first|prompt|text|max|min|num|by|of|to)_?token$",
    re.IGNORECASE,
)
"""Tokens of a language model."""
_PLACEHOLDER = re.compile(
    r"(?:your|my|the|some|insert|replace|put)[-_. ].*|.*[-_. ]here|change[-_]?me|place-?holder|example|dummy|fake|todo"
    r"|fixme|none|null|nil|n/?a|empty|true|false|yes|no|on|off|redacted|hidden|masked|secret|password|passwd|token"
    r"|key|api[-_]?key|x+|\*+|\.+|no[-_]?key(?:[-_].*)?|not[-_]?needed|unused|optional|required|str|string|bytes|int",
    re.IGNORECASE,
)
_IDENTIFIERS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w./-]*")
_AWS_SECRET = re.compile(r"[A-Za-z0-9/+]{40}")
_HASH_LENGTHS = {32, 40, 56, 64, 96, 128}
"""Hexadecimal digits of MD5, SHA-1 (git's commits), SHA-224, SHA-256, SHA-384 and SHA-512."""
_WORD = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_NATURAL = re.compile(r"[A-Z]?[a-z]{3,}")
"""A word of a language within another; keys are rarely made of them."""
_LEAST_ENTROPY = 4.1
"""Bits of a character; detect-secrets asks for 4.5, which a token of 20 characters can hardly have."""


@dataclass(frozen=True)
class Hit:
    """What looks like a secret in a line.

    Attributes:
        code: of the finding.
        kind: what it is, for people; never a part of it.
        value: the secret itself.
        column: where it starts, from 1.
    """

    code: str
    kind: str
    value: str
    column: int


def hits(line: str) -> list[Hit]:
    """Secrets in a line of a text, in their order; of those that overlap, the one that says most."""
    kept: list[Hit] = []
    for start, piece in _pieces(line):
        kept = _without_overlaps([*kept, *_in_piece(piece, start)])
        if len(kept) >= _MOST_IN_LINE:
            break
    return kept


def _without_overlaps(found: Iterable[Hit]) -> list[Hit]:
    kept: list[Hit] = []
    for hit in sorted(found, key=lambda hit: (hit.code, hit.column, -len(hit.value))):
        if not any(_overlap(hit, other) for other in kept):
            kept.append(hit)
    return sorted(kept, key=lambda hit: hit.column)[:_MOST_IN_LINE]


def assigned(name: str, value: str) -> Hit | None:
    """The secret that a value is because of what it is called; None where it is none."""
    kind = _called(name)
    if kind is None or "\n" in value.strip():
        return None
    if kind == PASSWORD and " " in value.strip() and not _stands_for_another(value):
        return Hit(PASSWORD, "a password", value.strip(), 1)
    return _judged(name, value.strip(), kind, 1, certain=True)


def random(value: str) -> Hit | None:
    """The part of a variable's value that has no order, as keys and tokens have none."""
    if len(value) < 20 or value.startswith(("/", "~", ".", "$")) or "://" in value:
        return None
    for match in _WORD.finditer(value):
        if _has_no_order(match[0]):
            return Hit(RANDOM, "a long text without order", match[0], match.start() + 1)
    return None


def _pieces(line: str) -> Iterator[tuple[int, str]]:
    for start in range(0, max(len(line), 1), _LONGEST_LINE - _OVERLAP):
        yield start, line[start : start + _LONGEST_LINE]


def _overlap(one: Hit, other: Hit) -> bool:
    return one.column < other.column + len(other.value) and other.column < one.column + len(one.value)


def _in_piece(line: str, start: int) -> Iterator[Hit]:
    if _WORTH.search(line):
        for code, kind, pattern in _OURS:
            yield from (_hit(code, kind, line, match, start) for match in pattern.finditer(line))
        for code, kind, patterns, valid in _library():
            for match in (match for pattern in patterns for match in pattern.finditer(line)):
                if valid(match[0]) and not _stands_for_another(match[match.lastindex or 0]):
                    yield _hit(code, kind, line, match, start)
    if _NAMED.search(line) or "sshpass" in line or "wandb" in line:
        for code, kind, pattern in _TOLD:
            for match in pattern.finditer(line):
                if not _stands_for_another(match[1]):
                    yield Hit(code, kind, match[1], start + match.start(1) + 1)
        yield from _in_assignments(line, start)


def _hit(code: str, kind: str, line: str, match: re.Match[str], start: int) -> Hit:
    """A match with all of the word it stands in: some patterns end early."""
    whole = code == PASSWORD and match.lastindex
    begin, end = match.span(1) if whole else match.span()
    if not whole and code == TOKEN:
        end += len(re.match(r"[A-Za-z0-9_.=-]*", line[end:])[0])  # type: ignore[index]  # it matches nothing, too
    return Hit(code, kind, line[begin:end], start + begin + 1)


def _in_assignments(line: str, start: int) -> Iterator[Hit]:
    at = 0
    while match := _ASSIGNED.search(line, at):
        at = match.start("sign") + 1
        name = match["name"]
        spaced = not match["sign"].strip()
        kind = _called(name)
        if kind is None or match["called"] or (spaced and not name.startswith("--")):
            continue
        group = next(group for group in ("double", "single", "bare") if match[group] is not None)
        certain = group != "bare" or ":" not in match["sign"]
        hit = _judged(name, match[group], kind, start + match.start(group) + 1, certain=certain)
        if hit is not None:
            at = match.end()
            yield hit


def _called(name: str) -> str | None:
    """`PASSWORD` or `TOKEN` for the name of a secret; None for another."""
    plain = name.strip("-").replace("-", "_").rpartition(".")[2]
    if not _NAMES_END.search(plain):
        return None
    if _PASSWORDS.search(plain) and (not _SHORT_PASS.search(plain) or _PASS_OF.search(plain)):
        return PASSWORD
    return TOKEN if _keywords().search(plain) and not _VOCABULARY.search(plain) else None


def _judged(name: str, value: str, code: str, column: int, *, certain: bool) -> Hit | None:
    """A value under the name of a secret, unless it only stands for one."""
    if _stands_for_another(value):
        return None
    if code == PASSWORD:
        told = len(value) >= 4 and len(value.split()) == 1
        return Hit(code, "a password", value, column) if told and (certain or _is_mixed(value)) else None
    loud = name.strip("-").isupper() and certain
    if len(value) < 8 or len(value.split()) != 1 or not (loud or _is_mixed(value)):
        return None
    return Hit(code, _kind_of(name), value, column)


def _kind_of(name: str) -> str:
    plain = name.upper().replace("-", "_")
    if re.search(r"AWS|MINIO|S3|OSS|COS|ACCESS_?KEY|STORAGE|ACCOUNT_?KEY", plain):
        return "an object-store key"
    if "WANDB" in plain:
        return "a Weights & Biases key"
    return "an access token" if "TOKEN" in plain else "a secret key"


def _is_mixed(value: str) -> bool:
    """True for what no word of a language is: letters and digits, or many letters of both cases."""
    letters = any(character.isalpha() for character in value)
    if letters and any(character.isdigit() for character in value):
        return True
    inner = value[1:]
    return len(value) >= 16 and value.isalpha() and sum(map(str.isupper, inner)) > 3 and not inner.isupper()


def _stands_for_another(value: str) -> bool:
    """True for a reference, a placeholder, a path or nothing: whatever only stands for a secret."""
    value = value.strip()
    if not any(character.isalnum() for character in value) or value[0] in "$`%{<[(":
        return True
    if "${" in value or "$(" in value or "{{" in value or value.startswith(("os.environ", "os.getenv")):
        return True
    if _PLACEHOLDER.fullmatch(value) or _IDENTIFIERS.fullmatch(value):
        return True
    return bool(_PATH.fullmatch(value)) and not _AWS_SECRET.fullmatch(value)


def _has_no_order(word: str) -> bool:
    """True for a word as random as a key: by detect-secrets' entropy, and not a hash, a UUID or words in a row."""
    plain = word.rstrip("=")
    if re.fullmatch(r"[0-9a-fA-F-]+", plain):
        digits = plain.replace("-", "")
        return "-" not in plain and len(digits) not in _HASH_LENGTHS and _entropy()(digits) > _LEAST_ENTROPY - 1
    longest = max(re.split(r"[-_]", plain), key=len)
    classes = (str.islower, str.isupper, str.isdigit)
    mixed = all(any(map(test, longest)) for test in classes)
    if len(longest) < 16 or not mixed or 2 * sum(map(len, _NATURAL.findall(longest))) > len(longest):
        return False
    return _entropy()(plain) >= _LEAST_ENTROPY


# detect-secrets


@functools.cache
def _library() -> list[tuple[str, str, tuple[re.Pattern[str], ...], Callable[[str], bool]]]:
    """Code, name and patterns of the library's rules, and a check of what matched."""
    from importlib import import_module

    found = []
    for module, name, code, kind in _PLUGINS:
        plugin: Any = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        valid = getattr(plugin, "is_formally_valid", _any)
        found.append((code, kind, tuple(plugin.denylist), valid))
    return found


def _any(_match: str) -> bool:
    return True


@functools.cache
def _keywords() -> re.Pattern[str]:
    """The library's names of secrets, and ours, at the end of a name."""
    from detect_secrets.plugins.keyword import DENYLIST

    return re.compile(rf"(?:{'|'.join(DENYLIST)}|{_WORDS})[0-9]*$", re.IGNORECASE)


@functools.cache
def _entropy() -> Callable[[str], float]:
    from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString

    measure: Callable[[str], float] = Base64HighEntropyString().calculate_shannon_entropy
    return measure
