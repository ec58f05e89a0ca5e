"""From pydantic's JSON schema to draft-07, which every editor reads, with an example on every field.

Draft-07 has `definitions` and no `$defs`, no `prefixItems`, and ignores whatever stands beside a
`$ref`. Descriptions that a model gives in the `Attributes:` of its docstring become those of its
fields, and a field without an example of its own gets its default, or the parts it is made of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

Schema = dict[str, Any]
DRAFT = "http://json-schema.org/draft-07/schema#"
_REF = "#/definitions/"
_ATTRIBUTE = re.compile(r"^ {4}(\w+): ", re.MULTILINE)


def draft7_schema(model: type[BaseModel], title: str) -> Schema:
    """The schema of what is written for a model.

    Args:
        model: under whose names on the wire the file is written.
        title: what the file is, for people.
    """
    made = _rewritten(model.model_json_schema(by_alias=True))
    definitions = dict(sorted(made.pop("definitions", {}).items()))
    whole = {"$schema": DRAFT, **made, "title": title, "definitions": definitions}
    for part in parts_of(whole):
        _describe(part)
    each_property(whole, lambda entry: _describe_as_its_part(entry, definitions))
    for part in parts_of(whole):
        _exemplify(part, definitions)
    return whole


def parts_of(schema: Schema) -> list[Schema]:
    """The schema and its definitions, each of which may have properties."""
    return [schema, *schema["definitions"].values()]


def each_property(schema: Schema, change: Callable[[Schema], Schema]) -> None:
    """Replace every property of every part by what `change` makes of it."""
    for part in parts_of(schema):
        if "properties" in part:
            part["properties"] = {name: change(entry) for name, entry in part["properties"].items()}


def ref_to(name: str) -> Schema:
    """A reference to a definition."""
    return {"$ref": _REF + name}


def _rewritten(node: Any, *, names: bool = False) -> Any:
    """In draft-07's words.

    Args:
        node: a schema, a list of them, or a value.
        names: True where the keys are names of fields and not words of the schema.
    """
    if isinstance(node, list):
        return [_rewritten(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _untitled(_rewritten(entry)) for name, entry in node.items()}
    words: Schema = {}
    for word, value in node.items():
        if word == "$ref":
            words["$ref"] = _REF + value.rpartition("/")[2]
        elif word == "$defs":
            words["definitions"] = {name: _rewritten(entry) for name, entry in value.items()}
        elif word == "oneOf":  # of models told apart by a key that may be absent: then more than one fits
            words["anyOf"] = _rewritten(value)
        elif word in ("default", "examples", "const", "enum", "required"):
            words[word] = value
        else:
            words[word] = _rewritten(value, names=word == "properties")
    return _alone(_tuple(_plain_default(words)))


def _untitled(entry: Schema) -> Schema:
    """A field without the title pydantic makes of its name."""
    return {word: value for word, value in entry.items() if word != "title"}


def _plain_default(words: Schema) -> Schema:
    """Without a default that says nothing: null, or a whole section spelled out."""
    if isinstance(words.get("default", 0), dict | None) or words.get("default") == []:
        return {word: value for word, value in words.items() if word != "default"}
    return words


def _tuple(words: Schema) -> Schema:
    """A list of so many entries, each of its own kind, as draft-07 says it."""
    if "prefixItems" not in words:
        return words
    items = words["prefixItems"]
    rest = {word: value for word, value in words.items() if word != "prefixItems"}
    return rest | ({"items": items[0]} if all(item == items[0] for item in items) else {"items": items})


def _alone(words: Schema) -> Schema:
    """A `$ref` that has something beside it, wrapped."""
    if "$ref" not in words or len(words) == 1:
        return words
    rest = {word: value for word, value in words.items() if word != "$ref"}
    return rest | {"allOf": [{"$ref": words["$ref"]}]}


def _describe(part: Schema) -> None:
    """Give a docstring's `Attributes:` to the fields they are about."""
    about, _, attributes = part.get("description", "").partition("\n\nAttributes:\n")
    if about:
        part["description"] = " ".join(about.split())
    names = _ATTRIBUTE.split(attributes)[1:]
    for name, text in zip(names[::2], names[1::2], strict=True):
        properties = part.get("properties", {})
        alias = name if name in properties else to_camel(name)
        if alias in properties:
            spoken = " ".join(text.split())
            properties[alias] = _alone(properties[alias] | {"description": spoken[0].upper() + spoken[1:]})


def _describe_as_its_part(entry: Schema, definitions: dict[str, Schema]) -> Schema:
    """A field that has no description of its own, described as the part it refers to."""
    refers = next((branch["$ref"] for branch in [entry, *entry.get("allOf", [])] if "$ref" in branch), None)
    if refers is None or "description" in entry:
        return entry
    return _alone(entry | {"description": definitions[refers.removeprefix(_REF)]["description"]})


def _exemplify(part: Schema, definitions: dict[str, Schema]) -> None:
    """Give an example to every field that has none."""
    for entry in part.get("properties", {}).values():
        if "examples" not in entry:
            found = _example(entry, definitions)
            if found is not None:
                entry["examples"] = [found]


def _example(entry: Schema, definitions: dict[str, Schema]) -> Any:
    """One value of a field: its example, default or only choice, or the parts it must have; None without any."""
    known = [entry[word] for word in ("default", "const") if word in entry]
    if choices := entry.get("examples") or known or entry.get("enum"):
        return choices[0]
    if "properties" in entry:
        names = entry.get("required") or list(entry["properties"])[:1]
        return {name: _example(entry["properties"][name], definitions) for name in names}
    parts = [definitions[entry["$ref"].removeprefix(_REF)]] if "$ref" in entry else []
    parts += entry.get("allOf") or entry.get("anyOf") or []
    return next((found for part in parts if (found := _example(part, definitions)) is not None), None)
