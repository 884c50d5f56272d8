"""Plans of ablations: which runs they name, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.ablations.plan import MOST_RUNS, AblationPlan, make_plan, read_plan
from engine.base.errors import UsageError

LR = "actor_rollout_ref.actor.optim.lr"
A2 = {"A2": ["reward_config.lambda_info=0"]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(**changes: object) -> AblationPlan:
    arguments: dict[str, object] = {"knobs": {}, "named": A2, "seeds": 3, "steps": 20}
    return make_plan("grpo_tiny", [], **{**arguments, **changes})  # type: ignore[arg-type]


def test_every_arm_has_every_seed_and_the_base_comes_first() -> None:
    jobs = list(plan().jobs())
    assert [(job.arm, job.seed) for job in jobs] == [
        (arm, seed) for seed in (1, 2, 3) for arm in ("base", "A2")
    ]


def test_knobs_are_combined() -> None:
    knobs = {LR: ["1e-4", "4e-4"], "actor_rollout_ref.rollout.n": ["4"]}
    names = [arm.name for arm in plan(knobs=knobs, named={}).arms]
    assert names == ["base", "lr=1e-4+n=4", "lr=4e-4+n=4"]


def test_an_arm_says_which_effective_values_differ() -> None:
    assert plan().arms[1].differences == {"reward_config.lambda_info": (0.3, 0)}


def test_each_run_has_its_own_checkpoint_folder_and_seeds() -> None:
    first, second = list(plan().jobs())[:2]
    assert {"grubrics.seed=1", "data.seed=1", "trainer.total_training_steps=20"} <= {
        *first.overrides
    }
    folders = [
        next(o for o in job.overrides if o.startswith("trainer.default_local_dir="))
        for job in (first, second)
    ]
    assert len(set(folders)) == 2


def test_the_same_request_is_the_same_plan() -> None:
    assert plan() == plan()
    assert plan().id != plan(steps=30).id


def test_a_written_plan_reads_back_unchanged() -> None:
    written = plan()
    written.write()
    assert read_plan(written.folder) == written


def test_an_arm_equal_to_the_base_is_refused_unless_it_is_wanted() -> None:
    same = {"same": [f"{LR}=2.0e-4"]}
    with pytest.raises(UsageError, match="trains exactly as 'base'"):
        plan(named=same)
    assert len(plan(named=same, allow_equal=True).arms) == 2


def test_a_value_without_effect_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"judge\.model has no effect"):
        plan(named={"judge": ["judge.model=gpt-5"]})


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"did you mean '.*optim\.lr'"):
        plan(named={"typo": ["actor_rollout_ref.actor.optim.lx=1"]})


@pytest.mark.parametrize("changes", [{"seeds": 0}, {"steps": 0}])
def test_numbers_that_make_no_plan_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        plan(**changes)


def test_a_plan_has_a_limit_of_runs() -> None:
    with pytest.raises(UsageError, match=f"more than {MOST_RUNS} runs"):
        plan(seeds=MOST_RUNS)


@pytest.mark.parametrize("text", ["{}", '{"arms": 3}', "[]", "not json"])
def test_a_damaged_plan_is_one_error(folder: Path, text: str) -> None:
    (folder / "plan.json").write_text(text)
    with pytest.raises(UsageError, match="plan"):
        read_plan(folder)
