"""Draw the rooms of the code into architecture.md, from its imports and its ``layers`` contracts.

    python docs/rooms.py
    python docs/rooms.py --figures [CHECKOUT]

A room is a folder or a file at the top of a package. ``--figures`` prints how many there are, in
this checkout or another one, and how many names they import from each other.
"""

from __future__ import annotations

import argparse
import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from engine.base.tables import write_between_marks

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
TITLE = "rooms"
PACKAGES = ("engine", "grubrics_tui")

GROUPS: Mapping[str, str] = {
    "SHOW": "cli commands app screens widgets model drawing settings text",
    "CONCLUDE": "report measure",
    "RUN IT": "train launch supervise",
    "JUDGE A RUN": "doctor checks",
    "SCORE": "data reward tasks",
    "KNOW": "config logs run base",
    "BESIDE": "translate",
}
"""The rooms by what they are for, a column each: the first of ``grubrics_tui``, the others of
``engine``."""

_ROUND = 100


@dataclass
class Room:
    package: str
    name: str
    floor: int
    """From 1. A room imports only rooms of lower floors."""
    files: int = 0
    lines: int = 0
    uses: dict[str, set[str]] = field(default_factory=dict)
    """The names that it imports, by the dotted name of the other room."""

    @property
    def dotted(self) -> str:
        return f"{self.package}.{self.name}"


def read_rooms(root: Path = ROOT) -> dict[str, Room]:
    """The rooms by dotted name, those of the highest floor first, with what they import."""
    layers = [layer for package in reversed(PACKAGES) for layer in _layers(root, package)]
    rooms = {
        f"{package}.{name}": Room(package, name, len(layers) - height)
        for height, (package, names) in enumerate(layers)
        for name in names
    }
    sources = {
        path: ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    }
    modules = {*sources.values()}
    for path, module in sources.items():
        room = rooms.get(_room_of(module))
        if room is None:
            continue
        text = path.read_text(encoding="utf-8")
        room.files += 1
        room.lines += text.count("\n")
        for name in imported_names(ast.parse(text), modules):
            if (other := _room_of(name)) != room.dotted and other in rooms:
                room.uses.setdefault(other, set()).add(name)
    return {dotted: room for dotted, room in rooms.items() if room.files}


def _layers(root: Path, package: str) -> Iterator[tuple[str, list[str]]]:
    """The package and the rooms of each of its floors, the highest first."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    [layers] = [
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and contract["containers"] == [package]
    ]
    yield from ((package, layer.split(" | ")) for layer in layers if layer != "__main__")


def _room_of(dotted: str) -> str:
    return ".".join(dotted.split(".")[:2])


def imported_names(tree: ast.Module, modules: Iterable[str]) -> Iterator[str]:
    """The dotted names that a file imports, wherever in it; of ``modules`` only the whole name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def draw(rooms: dict[str, Room]) -> str:
    """The picture: a line for each room, with its name in the column of its group."""
    widths = {group: max(map(len, (group, *names.split()))) + 2 for group, names in GROUPS.items()}
    titles = "".join(f"{group:<{width}}" for group, width in widths.items())
    lines = [f"floor  {titles}files   lines  stands on"]
    below = direct(rooms)
    for dotted, room in rooms.items():
        cells = (
            f"{room.name if room.name in GROUPS[group].split() else '':<{width}}"
            for group, width in widths.items()
        )
        size = f"{room.files:>5} {max(_ROUND, round(room.lines, -2)):>7,}"
        stands_on = " ".join(rooms[other].name for other in below[dotted])
        lines.append(f"{room.floor:>5}  {''.join(cells)}{size}  {stands_on}".rstrip())
    return "\n".join(["```", *lines, "```"])


def direct(rooms: dict[str, Room]) -> dict[str, list[str]]:
    """The rooms that each imports, without those that another one of them reaches."""
    reached: dict[str, set[str]] = {}
    for dotted in reversed(rooms):  # the lowest first
        uses = [other for other in rooms[dotted].uses if other in rooms]
        reached[dotted] = {*uses, *chain.from_iterable(reached[other] for other in uses)}
    return {
        dotted: [
            other
            for other in rooms
            if other in room.uses and not any(other in reached[use] for use in room.uses)
        ]
        for dotted, room in rooms.items()
    }


def figures(rooms: dict[str, Room]) -> dict[str, int]:
    """Of ``engine``: rooms, floors, arrows. Of both packages: the same, names, files and lines."""
    engine = {dotted: room for dotted, room in rooms.items() if room.package == "engine"}
    whole = {f"{title}, both packages": value for title, value in _count(rooms).items()}
    return {
        **{f"{title}, engine": value for title, value in _count(engine).items()},
        **whole,
        "files": sum(room.files for room in rooms.values()),
        "lines": sum(room.lines for room in rooms.values()),
    }


def _count(rooms: dict[str, Room]) -> dict[str, int]:
    """An arrow joins two rooms; floors are counted along the longest way of arrows."""
    arrows = [
        (room.dotted, other) for room in rooms.values() for other in room.uses if other in rooms
    ]
    height: dict[str, int] = dict.fromkeys(rooms, 1)
    for _ in rooms:
        for upper, lower in arrows:
            height[upper] = max(height[upper], min(height[lower] + 1, len(rooms)))
    names = {
        name
        for room in rooms.values()
        for other, imported in room.uses.items()
        for name in imported
        if other in rooms
    }
    return {
        "rooms": len(rooms),
        "floors": max(height.values()),
        "arrows": len(arrows),
        "names imported from another room": len(names),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--figures", action="store_true", help="print figures, write nothing")
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    options = parser.parse_args()
    rooms = read_rooms(options.checkout)
    if options.figures:
        print("\n".join(f"{title}: {value:,}" for title, value in figures(rooms).items()))
    else:
        write_between_marks(PAGE, TITLE, draw(rooms))


if __name__ == "__main__":
    main()
