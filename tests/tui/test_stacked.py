"""Stacked columns: the parts of a step's time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grubrics_tui.drawing.spans import plain, width_of
from grubrics_tui.drawing.stacked import Part, Stacks, layout, render

PARTS = (Part("gen", "phase-1", "g"), Part("reward", "phase-2", "r"))


def stacks(*sizes: tuple[float, ...]) -> Stacks:
    """Stacks of the steps 1, 2, ..."""
    table = np.array(sizes, float).reshape(len(sizes), len(PARTS))
    return Stacks(PARTS, np.arange(1.0, len(sizes) + 1), table)


def test_parts_stand_on_each_other_in_order() -> None:
    assert plain(render(stacks(*[(2.0, 1.0)] * 3), 24, 7, letters=True)) == "\n".join(
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
    rows = render(stacks((1.5, 1.5)), 20, 4)
    assert any(s.ink == "phase-1" and s.paper == "phase-2" for row in rows for s in row)


def test_more_steps_than_room_are_averaged_not_dropped() -> None:
    folded = stacks(*[(float(step), 0.0) for step in range(1, 7)]).folded(3)
    assert folded.sizes[:, 0].tolist() == [1.5, 3.5, 5.5]


def test_columns_fill_the_width_once_they_are_many() -> None:
    assert layout(3, 30).tolist() == [0] * 6 + [-1] + [1] * 6 + [-1] + [2] * 6
    assert layout(20, 30)[0] == 0
    assert layout(20, 30)[-1] == 19


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)), max_size=200),
    st.integers(0, 80),
    st.integers(0, 20),
)
def test_any_times_fit_any_size(sizes: list[tuple[float, float]], width: int, height: int) -> None:
    rows = render(stacks(*sizes), width, height, cursor=2.0)
    assert len(rows) == height
    assert all(width_of(row) in (0, width) for row in rows)
