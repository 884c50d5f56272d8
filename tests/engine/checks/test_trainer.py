"""What the trainer reads of reward manager, shaping, filter and mode; the rest is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.checks.check import Check, Subject
from engine.checks.trainer import check
from engine.config.compose import TEMPERATURE_SCHEDULE, effective, verl_config
from engine.config.load import load_config
from tests.paths import ROOT

FILTER = "algorithm.filter_groups.enable=true"
BUFFER = "reward.reward_kwargs.overlong_buffer_cfg"
ON = f"{BUFFER}.enable=true"
SHAPED = (ON, f"{BUFFER}.len=16", f"{BUFFER}.penalty_factor=1.0")
LIMIT = "reward.reward_kwargs.max_resp_len"


def line(*overrides: str, config: str = "grpo_tiny") -> Check:
    loaded = load_config(str(ROOT / "configs" / f"{config}.yaml"), overrides, env={})
    return check(Subject(effective(loaded, Path("attempt")), {}, Path("runs")))


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a config are relative to a folder that has none of them."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A training file of 40 rows: ten steps an epoch."""
    path = tmp_path / "train.parquet"
    pq.write_table(pa.table({"prompt": ["?"] * 40}), path)
    return path


@pytest.mark.parametrize("config", ["grpo_tiny", "verl_grpo", "verl_grpo_debug", "sft_tiny"])
def test_shipped_configs_are_fine(config: str) -> None:
    assert line(config=config).status in ("ok", "skip")


@pytest.mark.parametrize(
    ("overrides", "words", "fix"),
    [
        (["reward.reward_manager.name=gdpo"], "gdpo", "reward.reward_manager.name=naive"),
        (["reward.reward_manager.name=remote"], "remote", "reward.reward_manager.name=naive"),
        (["reward.reward_model.enable=true"], "models are not used", "reward.reward_model.enable"),
        (["trainer.use_v1=false"], "only the V1 trainer", "trainer.use_v1=true"),
        ([ON], "len is missing", f"{BUFFER}.len=12"),
        (SHAPED, "max_resp_len is missing", f"{LIMIT}=64"),
        ([*SHAPED, f"{LIMIT}=8"], "is more than", f"{BUFFER}.len=1"),
        ([*SHAPED, f"{LIMIT}=64", f"{BUFFER}.len=0"], "above 0", f"{BUFFER}.len=12"),
        (
            [*SHAPED, f"{LIMIT}=64", "reward.reward_manager.name=naive"],
            "naive manager does not lower the reward",
            "reward.reward_manager.name=dapo",
        ),
        ([f"{BUFFER}.lenn=3"], "nothing reads", f"{BUFFER}.len=3"),
        ([FILTER, "algorithm.filter_groups.metric=acc"], "not a metric", "metric=reward"),
        ([FILTER, "algorithm.filter_groups.metric=seq_reward"], "names no", "metric=reward"),
        ([FILTER, "algorithm.filter_groups.metric=aligment"], "known", "metric=alignment"),
        (["data.gen_batch_size=3"], "does not divide", "data.gen_batch_size=4"),
        (["trainer.v1.trainer_mode=separate_async"], "separate GPUs", "colocate_async"),
    ],
)
def test_what_would_have_no_effect_or_end_the_run_is_refused(
    overrides: Sequence[str], words: str, fix: str
) -> None:
    answer = line(*overrides)
    assert answer.status == "fail" and words in answer.message
    assert answer.fix is not None and fix in answer.fix


def test_separate_gpus_need_what_verl_asserts() -> None:
    answer = line("trainer.v1.trainer_mode=separate_async", config="verl_grpo")
    assert answer.status == "fail"
    for words in ("parameter_sync_step", "rollout.nnodes=0", "naive"):
        assert words in answer.message


def test_a_fetch_size_without_effect_is_a_warning() -> None:
    assert line("data.gen_batch_size=2").status == "ok"
    assert line(FILTER, "data.gen_batch_size=2").status == "warn"


def test_of_an_own_reward_function_any_metric_may_come() -> None:
    own = "reward.custom_reward_function.path=mine.py"
    assert line(FILTER, "algorithm.filter_groups.metric=acc", own).status == "ok"


def test_the_line_tells_what_is_on() -> None:
    message = line(FILTER, *SHAPED, f"{LIMIT}=64").message
    assert "at most 10 batches a step" in message and "the last 16 of 64 tokens" in message


@pytest.mark.parametrize("name", ["naive", "dapo"])
def test_verls_managers_are_replaced_by_the_one_that_records(name: str) -> None:
    overrides = [f"reward.reward_manager.name={name}", "reward.reward_manager.source=register"]
    config = load_config(str(ROOT / "configs" / "grpo_tiny.yaml"), overrides, env={})
    manager = verl_config(config, Path())["reward"]["reward_manager"]
    assert (manager["source"], manager["name"]) == ("importlib", "RecordingRewardManager")
    assert line(*overrides).status == "ok"


def test_a_manager_of_the_configs_own_stays_and_is_a_warning() -> None:
    section = "reward.reward_manager"
    own = (f"{section}.source=importlib", f"{section}.name=Mine", f"{section}.module.path=mine.py")
    answer = line(*own)
    assert answer.status == "warn" and "writes no reward.jsonl" in answer.message


FALLING = [
    f"{TEMPERATURE_SCHEDULE}.initial=0.5",
    f"{TEMPERATURE_SCHEDULE}.final=0.15",
    f"{TEMPERATURE_SCHEDULE}.steps=150",
]


def test_the_line_tells_the_temperature_at_the_first_the_middle_and_the_last_step() -> None:
    answer = line(*FALLING)
    assert answer.status == "ok"
    values = "0.4977 at step 1, 0.325 at step 75, 0.15 at step 150"
    assert f"temperature 0.5 -> 0.15 over 150 steps: {values}" in answer.message


def test_a_run_that_ends_before_its_schedule_is_a_warning(world: Path) -> None:
    train = f"data.train_files={world}"
    answer = line(*FALLING, train, "trainer.total_training_steps=60")
    assert answer.status == "warn" and "0.43 at step 30, 0.36 at step 60" in answer.message
    assert answer.fix == f"{TEMPERATURE_SCHEDULE}.steps=60"
    assert line(*FALLING, train, "trainer.total_training_steps=150").status == "ok"


def test_a_schedule_of_an_asynchronous_run_is_refused() -> None:
    answer = line(*FALLING, "trainer.v1.trainer_mode=colocate_async")
    assert answer.status == "fail" and "rollouts of earlier steps" in answer.message
    assert answer.fix is not None and "trainer.v1.trainer_mode=sync" in answer.fix


FILES = "data.train_files=[a.parquet,b.parquet]"


def test_the_line_tells_the_share_of_each_training_file() -> None:
    answer = line(FILES, "grubrics.shares=[3,1]")
    assert answer.status == "ok" and "75% of a.parquet, 25% of b.parquet" in answer.message


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["grubrics.shares=[0.5]"], "1 share, data.train_files has 2 files"),
        (["grubrics.shares=[0,0]"], "no file has a share above 0"),
        (["grubrics.shares=[1,1]", "data.custom_cls.path=mine.py"], "both decide how rows are"),
    ],
)
def test_shares_that_cannot_be_mixed_are_refused(overrides: list[str], words: str) -> None:
    answer = line(FILES, *overrides)
    assert answer.status == "fail" and words in answer.message


def test_the_line_tells_that_rollouts_leave_out_tokens() -> None:
    rollout = "actor_rollout_ref.rollout"
    told = "top_p=0.9 and top_k=50: rollouts leave out unlikely tokens"
    assert told in line(f"{rollout}.top_p=0.9", f"{rollout}.top_k=50").message
    assert "leave out" not in line(f"{rollout}.top_p=1.0", f"{rollout}.top_k=-1").message
