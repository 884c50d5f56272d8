"""Counting skipped updates, and the limit at which they end a run."""

from __future__ import annotations

import math

import pytest

from engine.run.history.metrics import MAX_SKIPPED_IN_A_ROW
from engine.train.skipped_updates import (
    VARIABLE,
    SkipCounter,
    SkippedUpdatesError,
    announce,
    require_trained,
)


def counts(norms: list[float], loss_scale: float = 1.0) -> list[float]:
    counter = SkipCounter()
    return [counter.count(norm, loss_scale)[MAX_SKIPPED_IN_A_ROW] for norm in norms]


def test_a_finite_gradient_ends_the_row() -> None:
    assert counts([1.0, math.nan, math.inf, 0.5, math.nan]) == [0, 1, 2, 0, 1]


def test_the_search_for_a_loss_scale_is_no_row() -> None:
    assert counts([math.inf, math.inf], loss_scale=1024.0) == [0, 0]


@pytest.mark.parametrize("prefix", ["", "actor/", "critic/"])
def test_the_limit_ends_the_run(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    monkeypatch.setenv(VARIABLE, "3")
    logged = {f"{prefix}{MAX_SKIPPED_IN_A_ROW}": 3.0, "val/loss": 1.0}
    with pytest.raises(SkippedUpdatesError, match="step 7: 3 updates in a row"):
        require_trained(logged, 7)


@pytest.mark.parametrize(("limit", "in_a_row"), [(3, 2.0), (None, 99.0)])
def test_a_run_below_its_limit_continues(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, in_a_row: float
) -> None:
    variables: dict[str, str] = {}
    announce(limit, variables)
    monkeypatch.setenv(VARIABLE, variables[VARIABLE])
    require_trained({MAX_SKIPPED_IN_A_ROW: in_a_row}, 7)
