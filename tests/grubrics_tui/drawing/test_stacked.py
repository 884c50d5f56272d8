"""Stacked columns: the parts of a step's time."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grubrics_tui.drawing.spans import Row, width_of
from grubrics_tui.drawing.stacked import Part, Stacks, drawn, layout
from tests.grubrics_tui.plain_picture import plain

PARTS = (Part("gen", "phase-1", "g"), Part("reward", "phase-2", "r"))


def stacks(*sizes: tuple[float, ...]) -> Stacks:
    """Stacks of the steps 1, 2, ..."""
    table = np.array(sizes, float).reshape(len(sizes), len(PARTS))
    return Stacks(PARTS, np.arange(1.0, len(sizes) + 1), table)


def rendered(shown: Stacks, width: int, height: int, **options: Any) -> list[Row]:
    return drawn(shown, width, height, **options)[0]


def test_parts_stand_on_each_other_in_order() -> None:
    assert plain(rendered(stacks(*[(2.0, 1.0)] * 3), 24, 7, letters=True)) == "\n".join(
        [
            "     rrrrr rrrrr rrrrr",
            "     rrrrr rrrrr rrrrr",
            "   2 ggggg ggggg ggggg",
            "     ggggg ggggg ggggg",
            "     ggggg ggggg ggggg",
            "   0 ggggg ggggg ggggg",
            "step   1     2     3",
        ]
    )


def test_a_cell_between_two_parts_shows_both() -> None:
    rows = rendered(stacks((1.5, 1.5)), 20, 4)
    assert any(s.ink == "phase-1" and s.paper == "phase-2" for row in rows for s in row)


def test_more_steps_than_room_are_averaged_not_dropped() -> None:
    folded = stacks(*[(float(step), 0.0) for step in range(1, 7)]).folded(3)
    assert folded.sizes[:, 0].tolist() == [1.5, 3.5, 5.5]


def test_columns_fill_the_width_once_they_are_many() -> None:
    assert layout(3, 30).tolist() == [0] * 6 + [-1] + [1] * 6 + [-1] + [2] * 6
    assert layout(20, 30)[0] == 0
    assert layout(20, 30)[-1] == 19


def test_columns_of_many_steps_are_labeled_with_the_round_steps_in_them() -> None:
    axis = plain(rendered(stacks(*[(1.0, 1.0)] * 400), 72, 7)).splitlines()[-1]
    assert axis.split() == ["step", "100", "200", "300"]


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)), max_size=200),
    st.integers(0, 80),
    st.integers(0, 20),
)
def test_any_times_fit_any_size(sizes: list[tuple[float, float]], width: int, height: int) -> None:
    rows = rendered(stacks(*sizes), width, height, cursor=2.0)
    assert len(rows) == height
    assert all(width_of(row) in (0, width) for row in rows)


@given(st.integers(1, 2000), st.integers(1, 3), st.integers(0, 2**32 - 1), st.booleans())
def test_a_picture_is_kept_where_it_would_be_the_same(
    size: int, more: int, seed: int, steady: bool
) -> None:
    noise = np.random.default_rng(seed).random((size + more, len(PARTS)))
    sizes = noise * 0.01 + 5 if steady else noise
    x = np.arange(1.0, size + more + 1)
    before = Stacks(PARTS, x[:size], sizes[:size])
    after = Stacks(PARTS, x, sizes)
    rows, kept = drawn(before, 40, 9)
    if kept is not None and kept.hold(after):
        assert rendered(after, 40, 9) == rows


def test_most_steps_of_a_long_run_leave_the_picture_as_it_is() -> None:
    sizes = np.random.default_rng(1).random((20_000, len(PARTS)))
    x = np.arange(20_000.0)
    held = 0
    for size in range(19_900, 19_990):
        kept = drawn(Stacks(PARTS, x[:size], sizes[:size]), 40, 9)[1]
        assert kept is not None
        held += kept.hold(Stacks(PARTS, x[: size + 1], sizes[: size + 1]))
    assert held > 60


def test_a_column_above_all_others_is_drawn() -> None:
    kept = drawn(stacks(*[(1.0, 1.0)] * 500), 40, 9)[1]
    assert kept is not None
    assert not kept.hold(stacks(*[(1.0, 1.0)] * 500, (9.0, 1.0)))
