"""Node selectors: every key must fit, any of a key's comma-separated values will do; spaces around do not count."""

from __future__ import annotations

from collections.abc import Mapping


def matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """True when a node's labels fulfil every key; the values of a key are alternatives with commas between."""
    return all(
        labels.get(key.strip()) in {value.strip() for value in values.split(",")}
        for key, values in selector.items()
        if key.strip()
    )


def parse_selector(text: str) -> dict[str, str]:
    """A selector that is written in one line, as `zone=a,b,team=nav`: zone is a or b, and team is nav.

    A part without `=` is a further value of the key before it; parts that belong to no key are left out.
    """
    found: dict[str, list[str]] = {}
    key = ""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            key = name.strip()
        values = found.setdefault(key, [])
        values.append((value if equals else name).strip())
    return {key: ",".join(values) for key, values in found.items() if key}
