"""The table a benchmark prints: medians with their spread, the reach, the machine and the versions."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

PACKAGES = ("ray", "torch", "numpy", "onnxruntime", "pydantic", "hydra-core")


@dataclass
class Row:
    """One figure: the median of its samples, and what it should reach."""

    metric: str
    samples: Sequence[float]
    reach: str
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


@dataclass
class Table:
    """All figures of one run."""

    name: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    load: tuple[float, float, float] = field(default_factory=os.getloadavg)

    def add(self, metric: str, samples: Sequence[float] | float, reach: str = "", note: str = "") -> None:
        """Keep a figure; `reach` is empty for what only explains others."""
        self.rows.append(Row(metric, [samples] if isinstance(samples, (int, float)) else list(samples), reach, note))

    def print(self) -> None:
        """Show it."""
        shown = RichTable(title=f"scripts/bench {self.name}", title_justify="left")
        for heading in ("metric", "median", "least", "most", "n", "reach", "note"):
            shown.add_column(heading, justify="right" if heading in {"median", "least", "most", "n"} else "left")
        for row in self.rows:
            values = (f"{value:.4g}" for value in (row.median, min(row.samples), max(row.samples)))
            shown.add_row(row.metric, *values, str(len(row.samples)), row.reach, row.note)
        console = Console(width=150)
        console.print(shown)
        for line in (*self.notes, self.machine()):
            console.print(line)

    def machine(self) -> str:
        """Where it was measured."""
        found = []
        for package in PACKAGES:
            try:
                found.append(f"{package} {version(package)}")
            except PackageNotFoundError:
                continue
        load = ", ".join(f"{value:.1f}" for value in self.load)
        return f"{os.cpu_count()} cores, load {load} at the start, Python {platform.python_version()}, " + ", ".join(
            found
        )

    def write(self, path: Path) -> None:
        """`{metric: median}` for programs."""
        path.write_text(json.dumps({row.metric: row.median for row in self.rows}, indent=2) + "\n")
