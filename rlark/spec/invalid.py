"""What pydantic says about a value, in words that help whoever wrote it."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from rlark.spec.finding import Finding
from rlark.spec.nearest import did_you_mean
from rlark.spec.path import join
from rlark.spec.scalar import Unquoted
from rlark.spec.yaml import plain

Loc = tuple[str | int, ...]


@dataclass(frozen=True)
class Codes:
    """The codes one kind of text has for the four kinds of mistake.

    Attributes:
        unknown: a key that does not exist.
        missing: a key that must be there.
        kind: a value of the wrong kind.
        value: a value that is not allowed.
    """

    unknown: str
    missing: str
    kind: str
    value: str


JOB = Codes("RL023", "RL024", "RL025", "RL026")
ENGINE = Codes("RL185", "RL186", "RL187", "RL188")
TASK_PACK = Codes("RL470", "RL471", "RL472", "RL473")
INVENTORY = Codes("RL240", "RL241", "RL242", "RL243")

AT_KEY = frozenset({JOB.unknown, ENGINE.unknown, TASK_PACK.unknown, INVENTORY.unknown, "RL153"})
"""Codes of unknown keys: they are shown where the key stands, not its value."""

_KINDS = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "none_required": "nothing",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("above", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("below", "lt"),
}


@dataclass(frozen=True)
class Invalid:
    """One mistake.

    Attributes:
        finding: for people.
        loc: the keys and positions in the data, without what pydantic adds for unions.
        meant: for an unknown key, the key that was probably meant.
    """

    finding: Finding
    loc: Loc
    meant: str | None = None


def explain(
    error: ValidationError, model: type[BaseModel], data: object, codes: Codes, path: str = ""
) -> list[Invalid]:
    """Every mistake pydantic found.

    A model's own check may raise a `PydanticCustomError` whose type is a finding's code, with a `hint` in its context.

    Args:
        error: what it raised.
        model: the model that was asked for.
        data: what it was given.
        codes: which codes the findings get.
        path: the place of the data in the Job.
    """
    found: dict[Loc, Invalid] = {}
    for item in error.errors(include_url=False, include_context=True):
        loc = _real(item["loc"], data, item["type"])
        # of a union, pydantic reports each branch; the first says enough
        found.setdefault(loc, _one(dict(item), loc, model, codes, join(path, loc)))
    return list(found.values())


def _real(loc: Loc, data: object, kind: str) -> Loc:
    """The location without the names of union branches."""
    real: list[str | int] = []
    here: Any = data
    for index, step in enumerate(loc):
        if _holds(here, step):
            here = here[step]
        elif not (kind == "missing" and index == len(loc) - 1):
            continue
        real.append(step)
    return tuple(real)


def _holds(container: Any, step: str | int) -> bool:
    if isinstance(container, list | tuple):
        return isinstance(step, int) and step < len(container)
    return isinstance(container, Mapping) and step in container


def _one(item: dict[str, Any], loc: Loc, model: type[BaseModel], codes: Codes, path: str) -> Invalid:
    kind, value = item["type"], item["input"]
    if kind == "extra_forbidden":
        return _unknown(loc, _names(model, loc[:-1]), codes, path)
    if kind == "missing":
        message = f"the key {loc[-1]!r} is missing"
        return Invalid(Finding(code=codes.missing, path=path, message=message, hint=f"add {loc[-1]}"), loc)
    shown = _shown(value, secret=bool(loc) and loc[-1] == "value")
    if kind in _KINDS:
        return Invalid(_wrong_kind(kind, value, shown, codes, path), loc)
    code = kind if kind.startswith("RL") else codes.value
    message, hint, expected = _message(item, shown)
    return Invalid(Finding(code=code, path=path, message=message, hint=hint, expected=expected, actual=shown), loc)


def _unknown(loc: Loc, names: list[str], codes: Codes, path: str) -> Invalid:
    key = str(loc[-1])
    meant = did_you_mean(key, names)
    hint = f"did you mean {meant}?" if meant else f"known keys here: {', '.join(names)}" if names else "remove it"
    finding = Finding(code=codes.unknown, path=path, message=f"the key {key!r} is not known here", hint=hint)
    return Invalid(finding, loc, meant)


def _wrong_kind(kind: str, value: object, shown: str, codes: Codes, path: str) -> Finding:
    wanted = _KINDS[kind]
    hint = None
    if isinstance(value, Unquoted):
        reads_as = str(value.reads_as).lower() if isinstance(value.reads_as, bool) else value.reads_as
        hint = (
            f"YAML 1.1 reads {reads_as} here and YAML 1.2 a text: write what you mean in plain digits, or true or false"
        )
    elif wanted == "a text" and isinstance(value, bool | int | float):
        hint = "put it in quotes"
    elif wanted in {"a whole number", "a number", "true or false"} and isinstance(value, str):
        meant = plain(value)
        hint = "write it without quotes" if not isinstance(meant, str | None) else None
        if wanted == "true or false":
            hint = "write true or false, without quotes"
    elif value is None:
        hint = "give it a value, or remove the key"
    return Finding(
        code=codes.kind,
        path=path,
        message=f"must be {wanted}, and here is {shown}",
        expected=wanted,
        actual=shown,
        hint=hint,
    )


def _message(item: dict[str, Any], shown: str) -> tuple[str, str | None, str | None]:
    """Message, hint and what is expected."""
    kind, context = item["type"], item.get("ctx") or {}
    if kind in _BOUNDS:
        word, name = _BOUNDS[kind]
        expected = f"{word} {context[name]}"
        return f"must be {expected}, and here is {shown}", None, expected
    if kind in {"literal_error", "enum"}:
        expected = str(context["expected"])
        meant = did_you_mean(
            str(item["input"]), [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
        )
        return f"must be {expected}, and here is {shown}", f"did you mean {meant}?" if meant else None, expected
    text = str(item["msg"]).removeprefix("Value error, ")
    if text.startswith(("Input ", "List ", "String ", "Dictionary ", "Tuple ", "Value ")):
        text = f"{text.split(' ', 1)[1]}, and here is {shown}"
    return text, context.get("hint"), None


def _shown(value: object, *, secret: bool) -> str:
    """A value in a few words; never one that may be a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping | list | tuple):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    kind = "the text" if isinstance(value, str) else "the value" if isinstance(value, bool) else "the number"
    if secret:
        return kind.replace("the", "a")
    text = str(value).lower() if isinstance(value, bool) else repr(str(value)) if isinstance(value, str) else str(value)
    return f"{kind} {text if len(text) <= 60 else text[:57] + '...'}"


def _names(model: type[BaseModel], loc: Loc) -> list[str]:
    """The keys that the mapping at `loc` may have."""
    here: Any = model
    for step in loc:
        here = _descend(here, step)
    names: list[str] = []
    for part in _parts(here):
        if isinstance(part, type) and issubclass(part, BaseModel):
            names += [field.alias or name for name, field in part.model_fields.items()]
    return names


def _descend(annotation: Any, step: str | int) -> Any:
    for part in _parts(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            for name, field in part.model_fields.items():
                if step in {name, field.alias}:
                    return field.annotation
        arguments = get_args(part)
        if get_origin(part) in {list, tuple} and isinstance(step, int) and arguments:
            return arguments[0]
        if get_origin(part) in {dict, Mapping} and len(arguments) == 2:
            return arguments[1]
    return None


def _parts(annotation: Any) -> list[Any]:
    """The branches of a union, or the annotation itself, without `Annotated`."""
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        return [part for branch in get_args(annotation) for part in _parts(branch)]
    return [annotation]
