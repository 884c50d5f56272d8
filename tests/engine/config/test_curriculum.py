"""Phases of a curriculum: their steps, their text, and the values that keep a run from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.config.curriculum import Curriculum, Phase, parse_phases
from engine.config.load import Config, load_config
from engine.config.schedule import find_conflicts, require_followed

GUIDE = "0.8:0.2:0.4 0.5:0.5:0.3 0.2:0.8:0.3"
FILES = "data.train_files=[verifiable.parquet,open.parquet]"


def config(*overrides: str) -> Config:
    return load_config("grpo_tiny", [f"grubrics.curriculum={GUIDE}", FILES, *overrides], {})


def test_ten_steps_are_four_three_and_three() -> None:
    assert Curriculum(parse_phases(GUIDE), 10).lengths == (4, 3, 3)


def test_the_last_factor_of_a_phase_is_that_of_the_learning_rate() -> None:
    assert parse_phases("1:0:1:0.5") == (Phase(1, 0, 1, 0.5),)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 3000))
def test_the_steps_of_all_phases_are_those_of_the_run(parts: list[int], total: int) -> None:
    phases = tuple(Phase(0.5, 0.5, part / sum(parts)) for part in parts)
    planned = Curriculum(phases, total)
    assert sum(planned.lengths) == total == planned.ends[-1]
    for phase, length in zip(phases, planned.lengths, strict=True):
        assert abs(length - phase.steps * total) <= 1 + 1e-6


@given(st.text(alphabet="0123456789.:e-, nai", max_size=30))
def test_any_text_is_phases_or_a_line_of_what_is_wrong(text: str) -> None:
    problem = problem_of(text)
    if problem is None:
        assert sum(phase.steps for phase in parse_phases(text)) == pytest.approx(1, abs=0.002)
    else:
        assert problem and "\n" not in problem


def problem_of(text: str) -> str | None:
    try:
        parse_phases(text)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no phase"),
        ("0.8:0.2", "must be VERIFIABLE:OPEN:STEPS"),
        ("0.8:0.2:x", "must be VERIFIABLE:OPEN:STEPS"),
        ("nan:0.2:1", "must be VERIFIABLE:OPEN:STEPS"),
        ("1.2:-0.2:1", "none below 0"),
        ("0.8:0.3:1", "of phase '0.8:0.3:1' sum to 1.1, not to 1"),
        ("0.8:0.2:0.5", "the shares of the steps sum to 0.5, not to 1"),
        ("0.8:0.2:0 0.5:0.5:1", "phase '0.8:0.2:0' has no steps"),
        ("1:0:1 0:1:1e-320", "phase '0:1:1e-320' has no steps"),
        ("0.8:0.2:1:0", "phase '0.8:0.2:1:0' has no learning rate"),
        ("0.8:0.2:1:1e308", "a learning rate is scaled by at most 1000"),
    ],
)
def test_a_config_with_impossible_phases_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=r"grubrics\.curriculum=") as caught:
        load_config("grpo_tiny", [f'grubrics.curriculum="{text}"'], {})
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("override", "fix"),
    [
        ("trainer.total_training_steps=null", "trainer.total_training_steps=100"),
        ("trainer.total_training_steps=1", "trainer.total_training_steps=4"),
        ("data.train_files=a.parquet", "data.train_files=[VERIFIABLE.parquet,OPEN.parquet]"),
        ("grubrics.shares=[1,1]", "grubrics.shares=null"),
        ("algorithm.filter_groups.enable=true", "algorithm.filter_groups.enable=false"),
        ("trainer.v1.trainer_mode=colocate_async", "trainer.v1.trainer_mode=sync"),
    ],
)
def test_a_value_that_keeps_a_run_from_its_phases_has_a_fix(override: str, fix: str) -> None:
    assert [conflict.fix for conflict in find_conflicts(config(override))] == [fix]
    with pytest.raises(UsageError, match=r"grubrics\.curriculum"):
        require_followed(config(override))


def test_a_run_that_can_follow_its_phases_has_no_conflict() -> None:
    require_followed(config())
