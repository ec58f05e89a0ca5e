"""The placement map: a grid of GPUs by components, with the ranks in the cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from rlark.plan.node import Node
from rlark.plan.plan import Plan, RankPlacement

FAKED = "(faked)"
_WIDTH = 100
"""Characters of a line of the text grid; wider grids go on below."""
_CELL = 14
"""Characters of a cell; longer lists of ranks are counted instead."""
_NOTHING = "."
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b")


@dataclass(frozen=True)
class _Grid:
    """The map before it is drawn.

    Attributes:
        title: the node and what it offers to the Job.
        columns: their headings.
        rows: component and its cells, one for each column; an empty cell holds no rank.
        notes: sentences that belong below.
        faked: True when the GPUs do not exist.
    """

    title: str
    columns: list[str]
    rows: list[tuple[str, list[str]]]
    notes: list[str]
    faked: bool


def placement_grid(plan: Plan, node: Node) -> str:
    """Draw the map as plain text.

    Args:
        plan: whose placement is drawn; its GPUs are the Job's logical ones.
        node: where it goes; says whether its GPUs are faked.

    Returns:
        Lines of at most 100 characters where the names allow it, without a newline at the end.
    """
    grid = _grid(plan, node)
    lines = [grid.title]
    if grid.rows:
        for columns in _bands(grid):
            lines += ["", *_table(grid, columns)]
    return "\n".join([*lines, *([""] if grid.notes else []), *grid.notes])


def _grid(plan: Plan, node: Node) -> _Grid:
    gpus = max(plan.ask.gpus, plan.gpus_required)
    on_cpu = any(not rank.gpus for ranks in plan.placement.values() for rank in ranks)
    rows = [(name, _cells(ranks, gpus, cpu=on_cpu)) for name, ranks in plan.placement.items()]
    columns = [f"GPU {gpu}" for gpu in range(gpus)] + (["cpu"] if on_cpu else [])
    faked = node.gpus_faked and gpus > 0
    return _Grid(_title(plan, node, gpus), columns, rows, list(_notes(plan, gpus)), faked)


def _title(plan: Plan, node: Node, gpus: int) -> str:
    what = "no GPU" if gpus == 0 else "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    if gpus and node.gpus_faked:
        what += f" {FAKED}"
    elif gpus and node.gpu_model:
        what += f" ({node.gpu_model})"
    return f"{node.name}: {what}, {plan.ask.cpus:g} CPU{'' if plan.ask.cpus == 1 else 's'}"


def _cells(ranks: Sequence[RankPlacement], gpus: int, *, cpu: bool) -> list[str]:
    seen: list[list[int]] = [[] for _ in range(gpus + cpu)]
    for rank in ranks:
        for gpu in rank.gpus:
            seen[gpu].append(rank.rank)
        if not rank.gpus:
            seen[gpus].append(rank.rank)
    return [_summary(numbers) for numbers in seen]


def _summary(ranks: Sequence[int]) -> str:
    """Ranks as ranges, or how many where that gets too long."""
    text = _ranges(ranks)
    return text if len(text) <= _CELL else f"{len(ranks)} ranks"


def _ranges(numbers: Iterable[int]) -> str:
    """`0-3,5` for 0, 1, 2, 3, 5."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def _notes(plan: Plan, gpus: int) -> Iterator[str]:
    if not plan.placement:
        yield "no component is placed: the run script has everything"
        return
    if plan.fused:
        yield f"fused: one process runs {_and(list(plan.placement))}"
    elif (stages := plan.stages) > 1:
        yield f"{stages} pipeline stages: environments are stepped while the policy decides for others"
    users = {
        gpu: tuple(name for name, ranks in plan.placement.items() if any(gpu in rank.gpus for rank in ranks))
        for gpu in range(gpus)
    }
    for names in dict.fromkeys(users.values()):
        shared = [gpu for gpu in users if users[gpu] == names]
        numbers = f"GPU{'s' if len(shared) > 1 else ''} {_ranges(shared)}"
        if not names:
            yield f"idle: {numbers}"
        elif len(names) > 1:
            yield f"shared: {numbers} by {_and(names)}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _bands(grid: _Grid) -> Iterator[list[int]]:
    """Columns that fit side by side."""
    used, band = _names_width(grid), list[int]()
    for column in range(len(grid.columns)):
        width = _column_width(grid, column) + 2
        if band and used + width > _WIDTH:
            yield band
            used, band = _names_width(grid), []
        used += width
        band.append(column)
    if band:
        yield band


def _names_width(grid: _Grid) -> int:
    return max(len(name) for name, _ in grid.rows)


def _column_width(grid: _Grid, column: int) -> int:
    heading = max(len(grid.columns[column]), len(_marker(grid, column)))
    return max(heading, *(len(cells[column]) for _, cells in grid.rows))


def _marker(grid: _Grid, column: int) -> str:
    """What stands below a heading."""
    return FAKED if grid.faked and grid.columns[column] != "cpu" else ""


def _table(grid: _Grid, columns: Sequence[int]) -> Iterator[str]:
    names, widths = _names_width(grid), {column: _column_width(grid, column) for column in columns}

    def line(name: str, cells: Iterable[str]) -> str:
        padded = (cell.ljust(widths[column]) for column, cell in zip(columns, cells, strict=True))
        return "  ".join([name.ljust(names), *padded]).rstrip()

    yield line("", [grid.columns[column] for column in columns])
    markers = [_marker(grid, column) for column in columns]
    if any(markers):
        yield line("", markers)
    for name, cells in grid.rows:
        yield line(name, [cells[column] or _NOTHING for column in columns])


def placement_svg(plan: Plan, node: Node) -> str:
    """Draw the map as an SVG that takes its text colour from the page, light or dark.

    Args:
        plan: whose placement is drawn.
        node: where it goes.

    Returns:
        One `<svg>` element, with a title for screen readers.
    """
    grid = _grid(plan, node)
    left = 24 + 8 * max((len(name) for name, _ in grid.rows), default=0)
    width, height, top = 112, 32, 78 if grid.faked else 62
    below = top + height * len(grid.rows)
    size = (max(left + width * len(grid.columns), 12 + 8 * _longest(grid)) + 12, below + 20 * len(grid.notes) + 16)
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{size[0]}' height='{size[1]}' "
        f"viewBox='0 0 {size[0]} {size[1]}' role='img' font-family='system-ui, sans-serif' font-size='13' "
        f"fill='currentColor'><title>{escape(f'Placement on {grid.title}')}</title>"
    )
    parts = [head, _text(12, 24, grid.title, "font-weight='600'")]
    for column, heading in enumerate(grid.columns):
        middle = left + width * column + width // 2 - 3
        parts.append(_text(middle, 52, heading, "text-anchor='middle'"))
        if _marker(grid, column):
            parts.append(_text(middle, 68, FAKED, "text-anchor='middle' font-style='italic'"))
    for row, (name, cells) in enumerate(grid.rows):
        y = top + height * row
        parts.append(_text(12, y + 19, name, ""))
        colour = _COLOURS[row % len(_COLOURS)]
        parts += [_box(left + width * column, y, cell, colour) for column, cell in enumerate(cells)]
    parts += [_text(12, below + 24 + 20 * index, note, "") for index, note in enumerate(grid.notes)]
    return "\n".join([*parts, "</svg>"])


def _longest(grid: _Grid) -> int:
    return max(len(line) for line in [grid.title, *grid.notes])


def _text(x: int, y: int, text: str, style: str) -> str:
    return f"<text x='{x}' y='{y}'{' ' + style if style else ''}>{escape(text)}</text>"


def _box(x: int, y: int, cell: str, colour: str) -> str:
    """A cell: filled where ranks are, an outline where none is."""
    opacity = "0.35" if cell else "0"
    shape = (
        f"<rect x='{x}' y='{y}' width='106' height='26' rx='4' fill='{colour}' fill-opacity='{opacity}' "
        f"stroke='{colour}' stroke-opacity='0.5'/>"
    )
    return shape + (_text(x + 53, y + 18, cell, "text-anchor='middle'") if cell else "")
