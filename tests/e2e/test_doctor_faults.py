"""Two dozen ways to make a run unhealthy, live: each is named, fixed, and trains.

A run is launched on the tiny world with one fault; the doctor follows its files as a screen would.
Within two steps or 30 seconds of the fault its first alert is the fault's own class. Then what the
finding offers is done, by launching its fix where that changes the config, else by what its
words say; the new run reaches its last step, and nothing is found in it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.run.run import Run
from tests.e2e import unhealthy_data
from tests.e2e.live_faults import (
    Fault,
    advice,
    fill_disk,
    fix,
    held_out,
    kill,
    loads_data,
    make_room,
    resumed,
    reward,
    small_disk,
    train_file,
    trains,
    write_key,
)
from tests.e2e.moody_judge import (
    broken,
    busy,
    chatty,
    curt,
    honest,
    indifferent,
    keyed,
    moody_judge,
    slow,
    unknown_model,
)
from tests.e2e.project import Project, copied
from tests.e2e.ward import Ward, alerts, recovered
from tests.waiting import ended

pytestmark = pytest.mark.slow


API = (
    "judge.provider=openai",
    "judge.base_url={judge}/v1",
    "judge.model=judge",
    "judge.max_attempts=1",
)
STRIKABLE = ("trainer.total_training_steps=15", "trainer.save_freq=1")
OWN_REWARD = (
    "reward.custom_reward_function.path={project}/own_reward.py",
    "reward.custom_reward_function.name=compute_score",
    "grubrics.reward_check_s=0",  # The preflight checks would refuse what is to fail here.
)
UNHEALTHY_DATA = "data.train_files=unhealthy.parquet"
SOUND_DATA = f"data.train_files={unhealthy_data.TRAIN}"
OFFLINE = "test the loop with the offline judge"
RUBRIC_REWARD = "score with the rubric reward"

FAULTS = (
    # The judge
    Fault("judge-key", "judge_auth", API, advice("key in .env", mend=write_key), mood=keyed),
    Fault(
        "judge-down",
        "judge_timeout_or_connection",
        (*API, "judge.base_url=http://127.0.0.1:9/v1"),
        fix(OFFLINE),
    ),
    Fault(
        "judge-storm",
        "judge_rate_limit",
        (*API, "judge.max_attempts=8", "judge.max_concurrent=16"),
        fix("lower judge.max_concurrent"),
        mood=busy,
    ),
    Fault(
        "judge-slow",
        "judge_timeout_or_connection",
        (*API, "judge.timeout_s=1", "judge.max_attempts=2"),
        fix("raise judge.timeout_s"),
        mood=slow,
    ),
    Fault("judge-broken", "judge_timeout_or_connection", API, fix(OFFLINE), mood=broken),
    Fault("judge-prose", "judge_parse_failure", API, fix(OFFLINE), mood=chatty),
    Fault(
        "judge-cut",
        "judge_parse_failure",
        (*API, "judge.max_tokens=40"),
        fix("raise judge.max_tokens"),
        mood=curt,
    ),
    Fault(
        "judge-unknown-model",
        "judge_auth.not_found",
        (*API, "judge.model=no-such-model"),
        advice("set judge.model", "judge.model=judge"),
        mood=unknown_model,
    ),
    Fault(
        "judge-indifferent",
        "judge_parse_failure.constant",
        API,
        fix(OFFLINE),
        mood=indifferent,
    ),
    # The reward
    Fault(
        "reward-raises",
        "reward_function_error",
        OWN_REWARD,
        fix(RUBRIC_REWARD),
        prepare=reward("raise ValueError('no number found')"),
    ),
    Fault(
        "reward-nan",
        "reward_function_error.nan",
        OWN_REWARD,
        advice("finite number", mend=reward("return math.log1p(len(set(solution_str)))")),
        prepare=reward("return math.nan"),
    ),
    Fault(
        "reward-constant",
        "reward_zero_or_flat.constant",
        OWN_REWARD,
        fix(RUBRIC_REWARD),
        prepare=reward("return 1.0"),
    ),
    # The data
    Fault(
        "data-without-gold",
        "data_missing_or_schema",
        (UNHEALTHY_DATA,),
        advice("prepare", SOUND_DATA),
        refused="parquet",
        prepare=train_file(unhealthy_data.without_gold),
    ),
    Fault(
        "data-flat-gold",
        "data_missing_or_schema.flat_gold",
        (UNHEALTHY_DATA,),
        advice("drop the others", SOUND_DATA),
        prepare=train_file(unhealthy_data.with_flat_gold),
    ),
    Fault(
        "data-empty-prompt",
        "data_missing_or_schema",
        (UNHEALTHY_DATA,),
        advice("prepare", SOUND_DATA),
        refused="parquet",
        prepare=train_file(unhealthy_data.without_prompt),
    ),
    Fault(
        "data-held-out",
        "validation_is_training",
        (UNHEALTHY_DATA,),
        advice("prepare", SOUND_DATA),
        refused="holdout",
        prepare=held_out,
    ),
    # The config
    Fault(
        "rate-x1000",
        "kl_or_grad_blowup",
        ("actor_rollout_ref.actor.optim.lr=0.2",),
        fix("set the learning rate to"),
    ),
    Fault(
        "rate-x1000-sft",
        "kl_or_grad_blowup",
        ("training.learning_rate=3.0",),
        fix("set the learning rate to"),
        config="sft_tiny",
    ),
    Fault(
        "response-cap",
        "reward_zero_or_flat",
        ("data.max_response_length=4",),
        fix("allow 64"),
    ),
    Fault(
        "temperature-0",
        "collapse_entropy_or_length.temperature",
        ("actor_rollout_ref.rollout.temperature=0.01",),
        fix("sample at temperature 1.0"),
    ),
    Fault(
        "attention-kernel",
        "dtype_or_attention_error",
        ("+actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2",),
        advice("sdpa", "actor_rollout_ref.model.override_config.attn_implementation=sdpa"),
    ),
    Fault(
        "port-busy",
        "port_in_use",
        ("training.master_port={busy_port}",),
        fix("free port"),
        config="sft_tiny",
        refused="ports",
    ),
    # The machine
    Fault(
        "worker-killed",
        "host_oom",
        STRIKABLE,
        resumed("memory"),
        strike=kill(trains),
    ),
    Fault(
        "loader-killed",
        "host_oom",
        (*STRIKABLE, "data.dataloader_num_workers=1"),
        resumed("memory"),
        strike=kill(loads_data),
    ),
    Fault(
        "disk-full",
        "checkpoint_disk_full",
        ("training.output_dir=disk/{name}", "training.save_steps=20", "training.max_steps=60"),
        advice("free space", mend=make_room),
        config="sft_tiny",
        prepare=small_disk,
        strike=fill_disk,
    ),
)


@pytest.fixture
def ward(
    tiny_world: Project,
    trained_sft: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ward]:
    """A project of this test's own, whose judge is well; its runs are stopped at the end."""
    assert trained_sft["state"] == "finished", trained_sft
    project = copied(tiny_world, tmp_path / "project")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in project.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project.path)
    with moody_judge(honest) as judge:
        made = Ward(project, judge)
        yield made
        for path in (project.path / "runs").glob("*"):
            made.stop(Run(path))
        if (project.path / "disk").is_mount():
            subprocess.run(["umount", "--lazy", str(project.path / "disk")], check=True)


def launched(ward: Ward, fault: Fault) -> Run:
    """The unhealthy run; one that the preflight checks refuse is launched past it."""
    if fault.prepare is not None:
        fault.prepare(ward)
    ward.judge.mood = fault.mood
    given = fault.arguments(ward, fault.name)
    if fault.refused is None:
        return ward.launch_checked(fault.name, fault.config, given)
    answer = ward.project.json("check", fault.config, *given, expect=(1,))
    failed = [check for check in answer["checks"] if check["status"] == "fail"]
    assert fault.refused in [one["id"] for one in failed]
    refusal = ward.project.run("launch", fault.config, *given, "--name", fault.name)
    assert refusal.returncode == 2 and f"{failed[0]['id']}: " in refusal.stderr
    return ward.launch(fault.name, fault.config, given)


def by_name(faults: Sequence[Fault], quick: Sequence[str]) -> list[Any]:
    """Those of ``quick`` run with every slow test, the others with the thorough ones."""
    return [
        pytest.param(
            fault, id=fault.name, marks=() if fault.name in quick else pytest.mark.thorough
        )
        for fault in faults
    ]


QUICK = ("rate-x1000-sft",)


@pytest.mark.parametrize("fault", by_name(FAULTS, QUICK))
def test_a_fault_is_named_live_and_its_fix_fixes_it(ward: Ward, fault: Fault) -> None:
    run = launched(ward, fault)
    named = ward.watch(run, fault.strike)
    print(fault.name, named)
    assert named.finding.id.startswith(fault.finding), named
    assert named.in_time, named
    again = fault.fix(ward, fault, run)
    recovered(again)
    if again != run:
        ended(run)
        assert alerts(run)[0].id.startswith(fault.finding)


REFUSED = {
    "batch": ("data.train_batch_size=3", "data.train_batch_size=3 is below", 3),
    "steps": ("trainer.total_training_steps=9000", "308 rows // batch 4 = 77 steps", 1),
}
"""The check that refuses, the override it refuses, why in its words, and how many keys it mends."""


@pytest.mark.parametrize("check", REFUSED)
def test_an_impossible_config_is_refused_and_its_fix_is_accepted(ward: Ward, check: str) -> None:
    wrong, why, keys = REFUSED[check]
    failed = _failed(ward, wrong)
    assert [one["id"] for one in failed] == [check]
    assert why in failed[0]["message"]
    mended = [word for word in failed[0]["fix"].split() if "=" in word]
    assert len(mended) == keys
    assert _failed(ward, wrong, *mended) == []


def _failed(ward: Ward, *overrides: str) -> list[dict[str, str]]:
    answer = ward.project.json("check", "grpo_tiny", *overrides, expect=(0, 1))
    return [check for check in answer["checks"] if check["status"] == "fail"]
