"""`scripts/bench NAME`: measure, print a table, assert nothing."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from tests.bench.table import Table

NAMES = ("cli", "submit", "starter", "runtime")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--quick", action="store_true", help="3 repetitions instead of 5")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write {metric: value} there")
    chosen = parser.parse_args()
    table = Table(chosen.name)
    importlib.import_module(f"tests.bench.{chosen.name}").measure(table, repetitions=3 if chosen.quick else 5)
    table.print()
    if chosen.json:
        table.write(chosen.json)


main()
