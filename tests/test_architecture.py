"""docs/architecture.md shows the rooms as they are, and describes each of them."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from docs.rooms import GROUPS, PAGE, Room, draw, figures, read_rooms

TEXT = PAGE.read_text()
PICTURE = re.search(r"<!-- rooms: make generated -->\n(.*?)\n<!-- end -->", TEXT, re.DOTALL)
SIZES = re.compile(r"(?<=[a-z]) +\d+ +([\d,]+)(?=  |$)", re.MULTILINE)
"""The files and lines of a room."""


@pytest.fixture(scope="module")
def rooms() -> dict[str, Room]:
    return read_rooms()


def test_the_picture_has_today_s_rooms_floors_and_imports(rooms: dict[str, Room]) -> None:
    assert PICTURE is not None
    drawn, now = PICTURE[1], draw(rooms)
    assert SIZES.sub(" ", drawn) == SIZES.sub(" ", now), "renew it: make generated"


def test_the_sizes_in_the_picture_are_about_right(rooms: dict[str, Room]) -> None:
    assert PICTURE is not None
    sizes = list(zip(sizes_in(PICTURE[1]), sizes_in(draw(rooms)), strict=True))
    assert len(sizes) == len(rooms)
    assert [
        (then, now) for then, now in sizes if not 0.8 * now - 200 < then < 1.2 * now + 200
    ] == []


def sizes_in(picture: str) -> list[int]:
    return [int(lines.replace(",", "")) for lines in SIZES.findall(picture)]


def test_each_room_has_a_group_and_an_entry(rooms: dict[str, Room]) -> None:
    grouped = Counter(name for names in GROUPS.values() for name in names.split())
    assert grouped == Counter(room.name for room in rooms.values())
    described = Counter(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE))
    assert described == grouped


@pytest.mark.parametrize("life", ["launch", "metric", "finding"])
def test_a_life_passes_ten_files(life: str) -> None:
    section = TEXT.partition(f"## The life of a {life}\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^(\d+)\. `([\w/]+\.py)", section, re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, 11))
    assert len({path for _, path in steps}) == 10


def test_arrows_and_floors_are_counted(rooms: dict[str, Room]) -> None:
    few = {
        "engine.top": Room("engine", "top", 3, 1, 10, {"engine.low": {"engine.low.a"}}),
        "engine.mid": Room("engine", "mid", 2, 1, 10, {"engine.low": {"engine.low.a"}}),
        "engine.low": Room("engine", "low", 1, 2, 30),
    }
    counted = figures(few)
    assert (counted["arrows, engine"], counted["floors, engine"]) == (2, 2)
    assert (counted["names imported from another room, engine"], counted["lines"]) == (1, 50)
