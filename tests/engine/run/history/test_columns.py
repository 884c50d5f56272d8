"""Metrics as columns: the same numbers as the history of steps, in any order they come."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.run.history.columns import Batch, Columns
from engine.run.history.train_log import Step, history

VALUES = st.one_of(st.none(), st.floats(-1e6, 1e6))
STEPS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(1, 3),
        st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3),
    ),
    max_size=40,
)


def test_a_null_is_a_gap_and_a_missing_value_is_none() -> None:
    columns = Columns()
    columns.add(Step(1, 1, 0.0, {"a": 1.0}))
    columns.add(Step(2, 1, 0.0, {"a": None}))
    columns.add(Step(3, 1, 0.0, {"b": 2.0}))
    assert columns.get("a").steps.tolist() == [1, 2]
    assert np.isnan(columns.get("a").values[1])
    assert columns.get("a").last() == (2, None)


def test_values_at_given_steps() -> None:
    columns = Columns()
    for step in (1, 3, 5):
        columns.add(Step(step, 1, 0.0, {"a": step / 2}))
    assert columns.get("a").at(np.array([0.0, 3.0, 4.0, 9.0]), missing=-1.0).tolist() == [
        -1.0,
        1.5,
        -1.0,
        -1.0,
    ]
    assert columns.get("b").at(np.array([1.0]), missing=7.0).tolist() == [7.0]


@given(STEPS)
def test_columns_hold_what_the_history_holds(
    given_steps: list[tuple[int, int, dict[str, float | None]]],
) -> None:
    columns = Columns()
    steps = [Step(number, attempt, 0.0, metrics) for number, attempt, metrics in given_steps]
    for step in steps:
        columns.add(step)
    kept = history(steps)
    for name in "abc":
        wanted = [(s.step, s.metrics[name]) for s in kept if name in s.metrics]
        column = columns.get(name)
        result = [
            (int(step), None if np.isnan(value) else value)
            for step, value in zip(column.steps.tolist(), column.values.tolist(), strict=True)
        ]
        assert result == wanted
    assert columns.times.steps.tolist() == [step.step for step in kept]


def found_in(columns: Columns) -> dict[str, list[tuple[float, float | None]]]:
    return {
        name: [
            (step, None if np.isnan(value) else value)
            for step, value in zip(
                columns.get(name).steps.tolist(), columns.get(name).values.tolist(), strict=True
            )
        ]
        for name in columns.names
    }


def lines_of(steps: list[Step]) -> list[bytes]:
    return [json.dumps(step.to_json()).encode() for step in steps]


@given(STEPS, st.integers(1, 40))
def test_lines_read_in_batches_give_the_same_columns_as_one_by_one(
    given_steps: list[tuple[int, int, dict[str, float | None]]], size: int
) -> None:
    steps = [Step(number, attempt, 5.0, metrics) for number, attempt, metrics in given_steps]
    one_by_one, batched = Columns(), Columns()
    for step in steps:
        one_by_one.add(step)
    lines = lines_of(steps)
    for start in range(0, len(lines), size):
        batched.merge(Batch.from_lines(lines[start : start + size]))
    assert found_in(batched) == found_in(one_by_one)
    assert batched.times.steps.tolist() == one_by_one.times.steps.tolist()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
LINES = st.fixed_dictionaries(
    {},
    optional={
        "step": st.integers(-5, 5) | JSON,
        "attempt": JSON,
        "t": JSON,
        "metrics": st.dictionaries(st.sampled_from(["a", "b", "a\x07", "", "a "]), JSON) | JSON,
    },
)


@given(st.lists(LINES, max_size=6))
def test_a_batch_reads_any_line_as_a_step_does(raw: list[dict[str, Any]]) -> None:
    lines = [json.dumps(record).encode() for record in raw]
    batch = Batch.from_lines(lines)
    parsed = [step for line in lines if (step := Step.parse(line))]
    wanted = [Step(step.step, step.attempt, step.time, step.metrics) for step in parsed]
    assert [batch.step(row) for row in range(len(batch))] == wanted


@pytest.mark.parametrize("value", ["1e999", "-1e101", "NaN", "Infinity", "1" + "0" * 400])
def test_a_value_that_is_not_finite_is_a_gap(value: str) -> None:
    batch = Batch.from_lines([b'{"step": 1, "metrics": {"a": %s, "b": 2}}' % value.encode()])
    assert batch.step(0).metrics == {"a": None, "b": 2.0}


def test_torn_and_unknown_lines_are_not_steps() -> None:
    torn = [b'{"step": 1, "met', b"", b"[1]", b"\xff\xfe", b'{"step": 1}', b"[" * 2000]
    assert len(Batch.from_lines(torn)) == 0


@given(st.integers(1, 200), st.integers(4, 50), st.integers(1, 20))
def test_a_long_history_is_thinned_in_its_older_part(count: int, most: int, every: int) -> None:
    columns = Columns()
    for step in range(count):
        columns.add(Step(step, 1, float(step), {"a": step / 2, "b": 1.0} if step % every else {}))
        columns.thin(most)
    steps, column = columns.times.steps, columns.get("a")
    latest = max(1, min(count, most) // 2)
    assert len(steps) <= most
    assert steps[0] == 0
    assert steps[-latest:].tolist() == list(range(count - latest, count))
    assert set(column.steps.tolist()) <= set(steps.tolist())
    assert (column.values == column.steps / 2).all()
