"""Which steps may contain a text: no step with a hit is left out, and most others are."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.run.history.rollouts import RolloutStore, StepSearch
from tests.engine.run.history.rollout_files import record, row, write_dump, write_records


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def steps_with(run: Path, text: str) -> list[int]:
    store = RolloutStore(run)
    steps = store.steps("train")
    search = StepSearch(store, "train", lambda response: text in response)
    return [step for step in steps if search.may_match(step)]


def test_a_step_is_found_by_a_response_in_its_dump(run: Path) -> None:
    for step, output in ((1, "apple"), (10, "pear"), (20, "plum")):
        write_dump(run / "attempt_1", step, [row("g", 0, 0.5, output=0) | {"output": output}])
    assert steps_with(run, "pear") == [10]


def test_a_prompt_is_not_a_response(run: Path) -> None:
    write_dump(run / "attempt_1", 1, [row("g", 0, 0.5) | {"input": "pear", "output": "apple"}])
    assert steps_with(run, "pear") == []


def test_a_step_is_found_by_a_response_that_was_only_recorded(run: Path) -> None:
    write_dump(run / "attempt_1", 3, [row("g", 0, 0.5)])
    write_records(run / "attempt_1", [record("g", 1, None, 3, rubric="pear")])
    assert steps_with(run, "pear") == [3]


def test_a_step_is_found_by_a_response_that_was_recorded_some_steps_before(run: Path) -> None:
    write_dump(run / "attempt_1", 5, [row("g", 0, 0.5)])
    write_records(run / "attempt_1", [record("g", 1, 0.5, 2, rubric="pear")])
    assert 5 in steps_with(run, "pear")


def test_a_step_of_any_attempt_is_found(run: Path) -> None:
    write_dump(run / "attempt_1", 1, [row("g", 0, 0.5) | {"output": "pear"}])
    write_dump(run / "attempt_2", 9, [row("g", 0, 0.5) | {"output": "pear"}])
    write_dump(run / "attempt_2", 20, [row("g", 0, 0.5)])
    assert steps_with(run, "pear") == [1, 9]
