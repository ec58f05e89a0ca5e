from __future__ import annotations

import math

import pytest

from rlark.spec import yaml
from rlark.spec.scalar import Unquoted
from rlark.spec.yaml import LARGEST_TEXT, parse


@pytest.fixture(params=["libyaml", "python"])
def read(request, monkeypatch):
    """`parse` over either parser: libyaml is not built in everywhere."""
    if request.param == "libyaml" and yaml._Parser is None:
        pytest.skip("this PyYAML has no libyaml: python -m pip install --force-reinstall pyyaml")
    if request.param == "python":
        monkeypatch.setattr(yaml, "_Parser", None)
    return parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-3", -3),
        ("+3", 3),
        ("0", 0),
        ("1.5", 1.5),
        ("1e-4", 1e-4),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("2024-01-01", "2024-01-01"),
        ('"010"', "010"),
        ("'on'", "on"),
        ("4Gi", "4Gi"),
        ("!!str 5", "5"),
        ("!!float 5", 5.0),
        ('!!int "5"', 5),
    ],
)
def test_scalars_by_yaml_12(read, text, value):
    found = read(f"a: {text}\n")
    assert found.findings == []
    assert found.data == {"a": value}
    assert type(found.data["a"]) is type(value)


@pytest.mark.parametrize(("text", "reads_as"), [("1:30", 90), ("010", 8), ("on", True), ("0x1f", 31), ("1_000", 1000)])
def test_what_yaml_11_reads_otherwise_stays_a_text(read, text, reads_as):
    value = read(f"a: [{text}]\n").data["a"][0]
    assert isinstance(value, Unquoted)
    assert (str(value), value.reads_as) == (text, reads_as)


def test_keys_are_texts_as_written(read):
    assert read("1: a\ntrue: b\n010: c\n~: d\n").data == {"1": "a", "true": "b", "010": "c", "~": "d"}


def test_aliases_and_merges(read):
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{z: 9}, *a]}\nd: *a\n"
    assert read(text).data == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"z": 9, "x": 1, "y": 2},
        "d": {"x": 1, "y": 2},
    }


def test_a_double_key_keeps_the_first_value_and_says_where_both_are(read):
    found = read("a: 1\nb: 2\na: 3\n")
    assert found.data == {"a": 1, "b": 2}
    (finding,) = found.findings
    assert (finding.code, finding.line, finding.column) == ("RL004", 3, 1)
    assert "line 1" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 10_000,
        "a: " + "[" * 900 + "]" * 900,
        "- " * 20_000,
        "a: " + "{a: " * 5_000,
        "? " * 5_000,
        "a: [1,\n",
        "a: b: c\n",
        "a: \x00\n",
        "a: \ud800\n",
        'a: "\\ud800"\n',
        "%YAML 3.0\n---\na: 1\n",
        "a: *nobody\n",
        "a: !!binary x\n",
        "<<: 3\n",
        "- a\n",
        "\t- a\n",
        "a: 1\n...\n}\n",
    ],
)
def test_nonsense_is_a_finding_and_never_an_exception(read, text):
    findings = read(text).findings
    assert findings
    assert all(finding.line >= 1 and finding.column >= 1 for finding in findings)


def test_too_long_a_text_is_not_read_at_all():
    (finding,) = parse("#" * (LARGEST_TEXT + 1)).findings
    assert finding.code == "RL010"


def test_json_is_read_with_positions():
    found = parse('{"a": {"b": [1, "x"]}, "c": "\\/ \\u00e4"}')
    assert found.data == {"a": {"b": [1, "x"]}, "c": "/ ä"}
    assert found.positions.of("a.b[1]") == (1, 17)


def test_json_that_is_no_yaml_is_read_too():
    assert parse('{"a": "\\ud83d\\ude00"}').data == {"a": "\U0001f600"}
    (finding,) = parse('{"a": "\\ud83d\\ude00", "a": 1}').findings
    assert finding.code == "RL004"
    assert [one.code for one in parse('{"a": "\\ud83d\\ude00\\u0000"}').findings] == ["RL011"]


TEXT = """\
metadata:
  name: demo
  labels: {a: x, "b.c/d": y}
spec:
  tasks:
    - name: worker
      env:
        - name: A
      script: |
        one
      nothing:
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("metadata", (1, 1)),
        ("metadata.name", (2, 9)),
        ("metadata.labels", (3, 11)),
        ("metadata.labels.a", (3, 15)),
        ('metadata.labels["b.c/d"]', (3, 27)),
        ("spec.tasks", (5, 3)),
        ("spec.tasks[0]", (6, 7)),
        ("spec.tasks[0].name", (6, 13)),
        ("spec.tasks[0].env[0].name", (8, 17)),
        ("spec.tasks[0].script", (9, 15)),
        ("spec.tasks[0].nothing", (11, 7)),
        ("spec.tasks[0].ray.replicas", (6, 7)),
        ("spec.tasks[7].name", (5, 3)),
        ("status", (1, 1)),
        ("", (1, 1)),
    ],
)
def test_places_and_nearest_parents(read, path, place):
    assert read(TEXT).positions.of(path) == place


def test_the_place_of_a_key(read):
    positions = read(TEXT).positions
    assert positions.of_key("metadata.name") == (2, 3)
    assert positions.of_key('metadata.labels["b.c/d"]') == (3, 18)
    assert positions.of_key("spec.tasks[0]") == (6, 7)
    assert positions.has("spec.tasks[0].env[0].name")
    assert not positions.has("spec.tasks[0].ray")


def test_columns_count_characters(read):
    assert read("ä: {训练: x}\n").positions.of('["ä"]["训练"]') == (1, 9)


def test_without_a_text_places_are_unknown():
    assert yaml.Positions().of("a.b") == (0, 0)
