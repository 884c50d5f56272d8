"""A count and its noun agree."""

from __future__ import annotations

from engine.base.counts import count_of


def test_the_noun_is_singular_after_1_only() -> None:
    assert [count_of(number, "step") for number in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]
    assert count_of(1, "process", plural="processes") == "1 process"
    assert count_of(3, "process", plural="processes") == "3 processes"
