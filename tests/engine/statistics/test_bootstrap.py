"""The bootstrap of scripts, against Python's own generator."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.statistics.bootstrap import script_bootstrap


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_the_bootstrap_of_scripts_is_that_of_pythons_generator(
    values: list[float], seed: int
) -> None:
    draws = random.Random(seed)
    means = sorted(sum(draws.choice(values) for _ in values) / len(values) for _ in range(40))
    interval = script_bootstrap(values, seed=seed, resamples=40)
    assert interval == pytest.approx((means[0], means[38]))
