"""What Hydra and OmegaConf say about a configuration, in our words and at its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlark.spec.config_files import Reading
from rlark.spec.finding import Finding
from rlark.spec.nearest import did_you_mean

_NOISE = re.compile(
    r"(?:full_key:|reference_type=|object_type=|Config search path:|To append to your |See https:|expecting \{).*"
)
"""What they add for programmers."""
_CURES = (
    ("must be a list of strings", "hydra.searchpath", "write a list: searchpath: [file:///data/configs]"),
    ("'HydraConf'", "hydra", "correct the key, or remove it: only searchpath has an effect here"),
    ("defaults must be a list", "defaults", "write a list of files and groups: defaults: [base, model: small]"),
    ("Unsupported type in defaults", "defaults", "an entry is the name of a file, or group: name"),
    ("Duplicate _self_", "defaults", "keep one _self_; what stands behind it wins over this file"),
    (
        "Could not override",
        "defaults",
        "override changes a group that stands before it: name the group without override",
    ),
    ("Multiple values for", "defaults", "name it once; to change what another file chose write override"),
    ("appears more than once", "defaults", "name it once; for both give each a package: model/small@small"),
    ("You must specify", "defaults", "choose one, and write its name instead of ???"),
    ("interpolation '", "defaults", "write the name: what a defaults list names is looked up before there are values"),
)
"""Words of Hydra's, the section that they are about, and how to mend that."""
_IN_FILE = re.compile(r"[Ii]n '([^']+)'")
_LONGEST = 500
"""Characters of what they say; they repeat the values that they cannot read."""
_SEARCHED = re.compile(r"path=file://(\S+)")
_VARIABLE = re.compile(r"Environment variable '([^']*)'")


def told(error: BaseException, overrides: Sequence[str], reading: Reading) -> Finding:
    """One finding for an error.

    Args:
        error: as Hydra or OmegaConf raised it.
        overrides: those that were to be applied.
        reading: the files that were read, to show what the error is about.
    """
    text, key = text_of(error), str(getattr(error, "full_key", None) or "")
    if match := _VARIABLE.search(text):
        return _variable(match[1], key, reading)
    kind = type(error).__name__
    if kind == "MissingMandatoryValue":
        message = f"{key or text} is '???', which says that somebody must give a value"
        return Finding(code="RL455", path=_path(key), message=message, hint=f"add {key}=... to overrides")
    if "Interpolation" in kind or kind == "GrammarParseError":
        message = f"{key or 'the configuration'} cannot be resolved: {text}"
        return Finding(code="RL454", path=_path(key), message=message, hint="correct the name, or write the value")
    index = next((i for i, override in enumerate(overrides) if _concerns(override, text)), None)
    if index is not None:
        return bad_override(index, overrides[index], text, _cure(overrides[index], error))
    missing = str(getattr(error, "missing_cfg_file", None) or "")
    if missing and _SEARCHED.search(str(error)):
        return _not_found(missing, error, reading)
    return _not_composed(error, text, reading)


def _path(key: str) -> str:
    """OmegaConf's name of a place, where it is a plain one: a key may hold a blank or a comma."""
    return key if re.fullmatch(r"\w[\w.\[\]-]*", key) else ""


def bad_override(index: int, override: str, text: str, hint: str | None) -> Finding:
    """An override that cannot be applied."""
    message = f"the override {override[:80]!r} cannot be applied: {text}"
    return Finding(code="RL452", path=f"overrides[{index}]", message=message, hint=hint)


def text_of(error: BaseException) -> str:
    """An error and what caused it, on one line."""
    parts: list[str] = []
    for one in _causes(error):
        text = _NOISE.sub("", " ".join(str(one).split())).strip()
        if text and text != "None" and text not in " ".join(parts):
            parts.append(text)
    return ": ".join(part.rstrip(".") for part in parts)[:_LONGEST] or type(error).__name__


def _no_interpolation(text: str, reading: Reading) -> Finding:
    message = f"what starts with ${{ is no interpolation: {text}"
    hint = "write ${section.key}, and close it with }; for the characters themselves write \\${"
    return reading.where(
        Finding(code="RL454", message=message, hint=hint), lambda one: "${" in one and not _parses(one)
    )


def _parses(text: str) -> bool:
    """True for a text that OmegaConf can read, interpolations included."""
    from omegaconf.errors import GrammarParseError
    from omegaconf.grammar_parser import parse

    try:
        parse(text)
    except GrammarParseError:
        return False
    return True


def in_a_circle(reading: Reading) -> Finding:
    """Defaults lists that lead back to a file that is being read."""
    names = ", ".join(file.name for file in reading.documents)
    message = f"defaults or values lead back to themselves without an end; read were {names[:200]}"
    finding = Finding(code="RL456", message=message, hint="remove an entry, so that no file is its own default")
    return reading.at(finding, "defaults")


def _not_composed(error: BaseException, text: str, reading: Reading) -> Finding:
    if any(type(cause).__name__ == "GrammarParseError" for cause in _causes(error)):
        return _no_interpolation(text, reading)
    section, hint = next(((section, hint) for words, section, hint in _CURES if words in text), ("", None))
    finding = Finding(code="RL456", message=f"the configuration cannot be composed: {text}", hint=hint)
    named = _IN_FILE.search(text)
    return reading.at(finding, section, Path(named[1]).stem if named else "") if section else finding


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what caused it."""
    here: BaseException | None = error
    while here is not None:
        yield here
        here = here.__cause__


def _variable(name: str, key: str, reading: Reading) -> Finding:
    message = f"{key or 'the configuration'} reads the environment variable {name}, which is not set here"
    hint = f"export {name}=... first, or write the value"
    finding = Finding(code="RL453", message=message, actual=name, hint=hint)
    return reading.where(finding, re.compile(rf"oc\.env:\s*{re.escape(name)}\b").search)


def _not_found(missing: str, error: BaseException, reading: Reading) -> Finding:
    """A file or group that a defaults list names and no folder of the search path holds."""
    folders = list(dict.fromkeys(path.rstrip("/") for path in _SEARCHED.findall(str(error))))
    shown = ", ".join(folder if Path(folder).is_dir() else f"{folder} (no such folder)" for folder in folders)
    group, _, name = missing.rpartition("/")
    message = f"defaults name {missing}, and there is no {missing}.yaml in the search path: {shown}"
    finding = Finding(code="RL460", message=message, actual=missing, hint=_near(group, name, folders))
    entry = re.compile(rf"(?:^|/){re.escape(name)}(?:\.yaml)?(?:@|$)")
    in_group = re.compile(rf"(?:^|/){re.escape(group.rpartition('/')[2])}[@/]" if group else "")
    return reading.where(finding, lambda text: bool(entry.search(text.split("@")[0])) and bool(in_group.search(text)))


def _near(group: str, name: str, folders: Sequence[str]) -> str:
    """What there is instead: files of the group, else the same file in another group, else other groups."""
    files = {file.stem for folder in folders for file in Path(folder, group).glob("*.yaml")}
    if near := did_you_mean(name, files):
        return f"did you mean {group}/{near}?" if group else f"did you mean {near}?"
    if files:
        return f"there are {', '.join(sorted(files)[:8])}"
    homes = sorted({file.parent.name for folder in folders for file in Path(folder).glob(f"*/{name}.yaml")})
    if homes:
        return f"{name} is in {' and '.join(homes)}; write {homes[0]}/{name}"
    return f"add the folder that holds {group or name} to hydra.searchpath, or correct the name"


def _cure(override: str, error: BaseException | None) -> str | None:
    """How to write an override that names a key the configuration does not have; None where that is not the fault."""
    while error is not None and getattr(error, "parent_node", None) is None:
        error = error.__cause__
    if error is None:
        return None
    place = override.partition("=")[0]
    if str(getattr(error, "full_key", "")).startswith(f"{place}."):
        return f"Hydra merges mappings; to replace this one write two overrides, ~{place} and +{override}"
    near = did_you_mean(str(getattr(error, "key", "")), map(str, getattr(error, "parent_node", ())))
    return f"did you mean {near}?" if near else f"a new key needs a + in front: +{override}"


def _concerns(override: str, text: str) -> bool:
    key = override.partition("=")[0].lstrip("+~")
    return override in text or f"'{key}'" in text or f" {key} " in f"{text} "
