"""The folder a script starts in: what the script needs of it, and what the script puts there itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import basename, dirname, normpath

from rlark.plan.script import Command, Word, commands

_LEADS = {
    *("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "exec", "nohup", "sudo", "env"),
    *("command", "builtin", "eval"),
}
"""Words that stand before a command's name."""
_TELLS = {
    *("echo", "printf", "export", "declare", "local", "readonly", "unset", "alias", "set", "for", "case", "function"),
    *("sed", "awk", "grep", "egrep", "tr", "[", "[[", "test", "rm", "tee", "touch", "mkdir", "read", "exit", "return"),
    *("git", "wget", "curl", "cp", "mv", "ln", "find", "trap", "kill", "pkill", "ssh", "docker", "podman", "wandb"),
    *("apt", "apt-get", "conda"),
}
"""Commands whose arguments are texts, names, or files that need not be there."""
_UNPACKS = {
    *("tar", "unzip", "7z", "gunzip", "rsync", "scp", "huggingface-cli", "hf", "modelscope", "gsutil", "aws"),
    *("ossutil", "git-lfs"),
}
"""Commands that may put anything into the folder they run in."""
_WRITTEN = r"(?:.*[-_.])?(?:out|output|log|save|results?|name)(?:[-_].*)?"
_NO_INPUT = re.compile(rf"-m|-c|-cn|-cp|-o|-O|--config-path|--module|(?:--)?{_WRITTEN}")
"""Options whose value is no file that must be there: a module, a name, or what is written."""
_ENDINGS = (
    r"py|sh|bash|ya?ml|jsonl?|toml|cfg|ini|conf|txt|csv|parquet|np[zy]|pkl|pth?|ckpt|bin|safetensors|onnx|gguf|xml"
    r"|urdf|usd|mjcf|ipynb|whl|pyz|env"
)
_FILE = re.compile(rf"[\w.+@%-]+(?:/[\w.+@%*-]+)*\.(?:{_ENDINGS})")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_EXPANDS = "/~$`"


class WorkFolder:
    """What is known of the folder that a Job's scripts start in, read in their order.

    Only what is sure to be a file of that folder counts: a name with a known ending, or a path that starts with a
    dot. Modules, addresses, names of models and what is written are none.
    """

    def __init__(self) -> None:
        """Start in an empty folder."""
        self._moved: int | None = None  # how deep in subshells `cd` has left it
        self._made: set[str] = set()
        self._anything = False

    def first_relative(self, script: str) -> Word | None:
        """The first relative path of a script that must be there and is not known to be; None without one."""
        for command in commands(script):
            if self._moved is not None and command.depth < self._moved:
                self._moved = None
            found = None if self._moved is not None or self._anything else self._missing(command)
            if found is not None:
                return found
        return None

    def _missing(self, command: Command) -> Word | None:
        words = _without_leads(command.words)
        name, given = (words[0].text, words[1:]) if words else ("", [])
        if name in ("cd", "pushd"):
            return self._move(command, given)
        missing = next((word for word in _needed(words, command) if not self._is_made(word.text)), None)
        self._anything = self._anything or name in _UNPACKS
        self._add(word.text for word in command.files if ">" in word.redirect)
        self._add(_made_by(name, [word.text for word in given if not word.text.startswith("-")]))
        return missing

    def _move(self, command: Command, given: list[Word]) -> Word | None:
        """Leave the folder; the target where that is a relative path itself."""
        self._moved = command.depth
        target = next((word for word in given if not word.text.startswith("-")), None)
        if target is None or target.text[:1] in _EXPANDS or target.text.startswith(".."):
            return None
        return None if self._is_made(target.text) else target

    def _is_made(self, path: str) -> bool:
        path = normpath(path.rpartition("=")[2])
        return path == "." or any(path == made or path.startswith(f"{made}/") for made in self._made)

    def _add(self, paths: Iterator[str]) -> None:
        """Remember what is made, and that the folder it is made in is there."""
        for path in paths:
            inside = path and path[0] not in _EXPANDS and not path.startswith("..")
            if inside and normpath(path) == ".":
                self._anything = True
            elif inside:
                self._made |= {normpath(path), normpath(path).split("/")[0] if dirname(path) else normpath(path)}


def _needed(words: list[Word], command: Command) -> Iterator[Word]:
    """Relative paths of files that a command cannot do without."""
    yield from (word for word in command.files if word.redirect == "<" and _is_relative(word.text))
    if not words:
        return
    name, given = words[0].text, words[1:]
    if "/" in name and _is_relative(name, called=True):
        yield words[0]
    if name in ("source", "."):
        yield from (word for word in given[:1] if _is_relative(word.text, called="/" in word.text))
    elif name not in _TELLS:
        yield from _arguments(given)


def _made_by(name: str, given: list[str]) -> Iterator[str]:
    """What a command makes, by its arguments without options."""
    if name in ("mkdir", "touch", "tee", "virtualenv"):
        yield from given
    elif name in ("cp", "mv", "ln"):
        yield from given[-1:]
    elif name == "git" and given[:1] == ["clone"]:
        yield from (path for path in given[-1:] if ":" not in path)
        yield from (basename(path.rstrip("/")).removesuffix(".git") for path in given[1:] if ":" in path or "/" in path)
    elif name in ("wget", "curl"):
        yield from (basename(path.partition("?")[0]) if "://" in path else path for path in given)
    elif "venv" in given:
        yield ".venv" if given[-1] == "venv" else given[-1]


def _without_leads(words: list[Word]) -> list[Word]:
    at = 0
    while at < len(words) and (words[at].text in _LEADS or _ASSIGNMENT.match(words[at].text)):
        at += 1
    return words[at:]


def _arguments(given: list[Word]) -> Iterator[Word]:
    """Arguments that are relative paths, alone or as the value of an option."""
    before = ""
    for word in given:
        option, equals, value = word.text.rpartition("=")
        if not _NO_INPUT.fullmatch(option if equals else before) and _is_relative(value):
            yield word
        before = word.text


def _is_relative(text: str, *, called: bool = False) -> bool:
    """True for a path that starts from the folder the script is in, and for nothing that only looks like one."""
    if not text or any(sign in text for sign in " \t\n:@,") or text[0] in "/~$`-<*":
        return False
    if text.startswith(("./", "../")):
        return "*" not in text
    return called or bool(_FILE.fullmatch(text))
