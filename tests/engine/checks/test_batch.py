"""The relations between batch sizes, as verl 0.9.1 enforces them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checks.batch_and_steps import BatchSizes, repaired, violations
from tests.engine.checks.project import Project

pytestmark = pytest.mark.long

FINE = BatchSizes(batch=24, mini=24, n=6, micro=4, log_prob=4, ref_log_prob=None, gpus=1)

small = st.integers(min_value=0, max_value=32)
micro = st.none() | small
sizes = st.builds(
    BatchSizes,
    batch=small,
    mini=small,
    n=small,
    micro=micro,
    log_prob=micro,
    ref_log_prob=micro,
    gpus=st.integers(min_value=1, max_value=16),
    sequence_parallel=st.integers(min_value=1, max_value=8),
    rollout_parallel=st.integers(min_value=1, max_value=8),
)


def test_the_production_sizes_hold() -> None:
    assert not list(violations(FINE))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"batch": 16}, "data.train_batch_size=16 is below"),
        ({"n": 1}, "uses the reward as advantage"),
        ({"micro": 5}, "ppo_micro_batch_size_per_gpu=5 does not divide the 144 rollouts"),
        ({"micro": 0}, "ppo_micro_batch_size_per_gpu is not set"),
        ({"log_prob": 5}, "log_prob_micro_batch_size_per_gpu=5 does not divide"),
        ({"ref_log_prob": 7}, "ref.log_prob_micro_batch_size_per_gpu=7 does not divide"),
        ({"gpus": 5}, "is not a multiple of 5 GPUs"),
        ({"gpus": 4, "sequence_parallel": 3}, "ulysses_sequence_parallel_size=3 does not divide"),
        ({"rollout_parallel": 2}, "tensor_model_parallel_size=2 does not divide 1 GPU"),
    ],
)
def test_each_relation_that_is_broken_is_named(change: dict[str, int], complaint: str) -> None:
    result = list(violations(replace(FINE, **change)))
    assert any(complaint in text for text in result), result


def test_several_gpus_are_named_only_where_there_are_several() -> None:
    one, four = (list(violations(replace(FINE, micro=5, gpus=gpus))) for gpus in (1, 4))
    assert [text.endswith("rollouts of a mini batch") for text in one] == [True]
    assert any(text.endswith("rollouts of a mini batch on each GPU") for text in four)


def test_sizes_by_tokens_are_not_held_to_micro_batches() -> None:
    by_tokens = replace(FINE, batch=16, micro=None, log_prob=None)
    assert not list(violations(by_tokens))


def test_a_step_is_filled_up_to_whole_mini_batches() -> None:
    assert replace(FINE, batch=24, mini=16, n=2).rollouts_per_replica == 64


@given(sizes)
def test_repaired_sizes_break_no_relation(broken: BatchSizes) -> None:
    assert not list(violations(repaired(broken)))


@given(sizes)
def test_repairing_what_is_whole_changes_nothing(given_sizes: BatchSizes) -> None:
    whole = repaired(given_sizes)
    assert repaired(whole) == whole


@pytest.mark.row("G14")
def test_the_fix_is_one_set_of_overrides_that_passes(project: Project) -> None:
    broken = ("data.train_batch_size=6", "actor_rollout_ref.actor.ppo_mini_batch_size=64")
    check = project.checks("grpo", *broken)["batch"]
    assert check.status == "fail" and check.fix is not None
    assert project.checks("grpo", *broken, *check.fix.split())["batch"].status == "ok"


def test_a_mini_batch_that_leaves_a_rest_is_a_warning(project: Project) -> None:
    check = project.checks("grpo", "data.train_batch_size=6")["batch"]
    assert check.status == "warn"
    assert "from 24 to 32 rollouts" in check.message


def test_deprecated_sizes_are_refused_with_their_successor(project: Project) -> None:
    check = project.checks("grpo", "actor_rollout_ref.actor.ppo_micro_batch_size=4")["batch"]
    assert check.status == "fail"
    assert check.fix == "actor_rollout_ref.actor.ppo_micro_batch_size=null"


def test_judge_calls_of_a_step_are_shown(project: Project) -> None:
    assert "16 judge calls per step" in project.checks()["batch"].message
