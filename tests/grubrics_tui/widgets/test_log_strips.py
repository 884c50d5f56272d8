"""The bar beside a log, by bytes of the file."""

from __future__ import annotations

from engine.logs.log_file import Offsets
from grubrics_tui.widgets.log_picture import scrollbar


def offsets(*places: int) -> Offsets:
    found = Offsets()
    found.replace(0, 1000, places)
    return found


def test_it_shows_the_part_in_sight_and_where_something_is() -> None:
    bar = scrollbar(100, (40, 60), 10, {"mark": offsets(5), "error": offsets(5, 95)})
    assert "".join(span.text for span in bar) == "││││┃┃││││"
    assert [span.ink for span in bar] == [
        "mark", *["line"] * 3, "line-focus", "line-focus", *["line"] * 3, "error",
    ]  # fmt: skip


def test_an_empty_file_and_a_terminal_without_unicode_have_one_too() -> None:
    bar = scrollbar(0, (0, 0), 3, {}, ascii_only=True)
    assert "".join(span.text for span in bar) == "|||"
