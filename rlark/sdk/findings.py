"""What was found in a Job, as a cell of a notebook and a terminal show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import overload

from rlark.spec.finding import Finding, errors_of, exit_code


class Findings(Sequence[Finding]):
    """Findings in their order; true when there are any, `ok` when none is an error."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        """Take what was found."""
        self._findings = tuple(findings)

    @property
    def ok(self) -> bool:
        """True when nothing keeps the Job from starting; warnings may stand."""
        return not errors_of(self._findings)

    @property
    def exit_code(self) -> int:
        """What `rlark validate` would end with."""
        return exit_code(self._findings)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Findings: ...
    def __getitem__(self, index: int | slice) -> Finding | Findings:
        """One finding, or some."""
        return Findings(self._findings[index]) if isinstance(index, slice) else self._findings[index]

    def __len__(self) -> int:
        return len(self._findings)

    def __repr__(self) -> str:
        return "\n".join(str(finding) for finding in self._findings) or "nothing was found: the Job can run"

    def _repr_html_(self) -> str:
        if not self._findings:
            return "<p>&#10003; nothing was found: the Job can run</p>"
        rows = "".join(_row(finding) for finding in self._findings)
        head = "<tr><th>place</th><th></th><th>code</th><th>where</th><th>what, and how to mend it</th></tr>"
        return f"<table>{head}{rows}</table>"


COLORS = {"error": "#b00020", "warning": "#9a6700", "info": "#57606a"}


def _row(finding: Finding) -> str:
    place = ":".join(str(part) for part in (finding.file, finding.line, finding.column) if part)
    message, *picture = finding.message.split("\n")
    hint = f"<br><i>{escape(finding.hint)}</i>" if finding.hint else ""
    lines = "\n".join(map(escape, picture))
    drawn = f"<pre>{lines}</pre>" if picture else ""
    return (
        f"<tr><td>{escape(place)}</td><td style='color:{COLORS[finding.severity]}'>{finding.severity}</td>"
        f"<td>{escape(finding.code)}</td><td><code>{escape(finding.path)}</code></td>"
        f"<td style='text-align:left'>{escape(message)}{hint}{drawn}</td></tr>"
    )
