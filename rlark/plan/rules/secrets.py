"""No secret stands in the Job, and those it refers to are there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rlark.plan.rules.rule import RAY, Case, Rule
from rlark.spec.finding import Finding
from rlark.spec.leak import Leak

_ENV = f"{RAY}.env"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")
_SET = "rlark secrets set NAME KEY"
_ADVICE = f"remove it, put it into the store with `{_SET}` and refer to it with valueFrom.secretRef"
_IN_SCRIPT = f"{_ADVICE} in ray.env; the script then finds it as a variable"
_IN_COMMENT = "remove it, comments included: who gets the file gets the secret"


def tell_leaks(leaks: Iterable[Leak]) -> Iterator[Finding]:
    """A finding for each secret that stands in clear; none shows one."""
    for leak in leaks:
        script = leak.path.endswith("Script")
        yield Finding(
            code=leak.code,
            path=leak.path,
            line=0 if leak.path else leak.line,
            column=0 if leak.path else leak.column,
            inside=(leak.line, leak.column) if leak.lines > 1 else (0, 0),
            message=f"{leak.kind} stands in clear{_where(leak)}; whoever may see the Job could read it",
            expected="no secret in the Job",
            hint=_IN_SCRIPT if script else _ADVICE if leak.path else _IN_COMMENT,
        )


def _where(leak: Leak) -> str:
    if leak.path.endswith("Script"):
        return f" in line {leak.line} of {leak.path.rpartition('.')[2]}"
    if leak.path.endswith(".value") and leak.name:
        return f" as the value of {leak.name}"
    return f" in line {leak.line}" if leak.lines > 1 else ""


def _references(case: Case) -> Iterator[Finding]:
    """Names and keys of secrets are such as the store has, and the store has them."""
    for index, variable in enumerate(case.worker.ray.env):
        if variable.value_from is None:
            continue
        ref, path = variable.value_from.secret_ref, f"{_ENV}[{index}].valueFrom.secretRef"
        wrong = [(key, text) for key, text in (("name", ref.name), ("key", ref.key)) if not _NAME.fullmatch(text)]
        for key, text in wrong:
            yield Finding(
                code="RL355",
                path=f"{path}.{key}",
                message=f"{text[:80]!r} cannot be the {key} of a secret",
                expected="1 to 63 of a-z, A-Z, 0-9, '-', '_' and '.'",
                actual=text[:80],
                hint="name an entry of the store, as `rlark secrets list` shows them",
            )
        if not wrong and (ref.name, ref.key) in (case.facts.missing_secrets or ()):
            yield Finding(
                code="RL354",
                path=path,
                message=f"the store has no key {ref.key} of a secret {ref.name}, from which {variable.name} is read",
                expected="an entry of the store",
                actual="none",
                hint=f"put it there: rlark secrets set {ref.name} {ref.key}",
                curable=True,
            )


RULES: tuple[Rule, ...] = (Rule(_references),)
