"""Fixes by command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.run.run import Run
from engine.run.trust import vouch
from tests.grubrics_tui.sample_run import OOM, SampleRun
from tests.manifests import change_manifest

pytestmark = pytest.mark.waits

TITLE = "GPU out of memory in training"

Call = Callable[..., tuple[int, str]]


def test_fix_shows_what_would_change(fixable: Run, runs: Path, call: Call) -> None:
    code, said = call("fix", "grpo-fail", "--runs", str(runs), "--dry-run")
    assert code == 0
    assert "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu: 4 -> 1" in said
    assert said.endswith("dry run: nothing was launched\n")
    assert [path.name for path in runs.iterdir()] == ["grpo-fail"]


def test_fix_launches_the_derived_run_and_says_so_in_json(
    fixable: Run, runs: Path, call: Call
) -> None:
    code, said = call("fix", "grpo-fail", "--runs", str(runs), "--number", "3", "--json")
    told = json.loads(said)
    assert code == 0
    assert (told["parent"], told["run"]) == ("grpo-fail", "grpo-fail-fix")
    assert told["changes"][0] == {
        "kind": "config",
        "key": "actor_rollout_ref.rollout.gpu_memory_utilization",
        "before": 0.5,
        "after": 0.4,
        "why": "",
    }
    assert (runs / "grpo-fail-fix" / "manifest.json").is_file()


def test_a_fix_that_was_applied_before_is_noted_and_launched_all_the_same(
    fixable: Run, runs: Path, call: Call
) -> None:
    first = call("fix", "grpo-fail", "--runs", str(runs))
    assert first[0] == 0 and "note:" not in first[1]
    code, said = call("fix", "grpo-fail", "--runs", str(runs))
    assert code == 0
    assert "note: grpo-fail-fix already has these overrides (starting)" in said
    told = json.loads(call("fix", "grpo-fail", "--runs", str(runs), "--dry-run", "--json")[1])
    assert told["applied_before"] == ["grpo-fail-fix", "grpo-fail-fix-2"]


@pytest.mark.parametrize("number", ["0", "9"])
def test_fix_lists_them_for_a_number_that_is_none(
    fixable: Run, runs: Path, call: Call, number: str
) -> None:
    code, said = call("fix", "grpo-fail", "--runs", str(runs), "--number", number)
    assert code == 2
    assert "run 'grpo-fail' has these fixes: 1 Use smaller micro batches; 2 " in said


def test_a_healthy_run_has_no_fix(run: SampleRun, runs: Path, call: Call) -> None:
    code, said = call("fix", run.run.id, "--runs", str(runs))
    assert code == 0
    assert said == f"nothing to fix: run '{run.run.id}' has no finding above info\n"
    told = json.loads(call("fix", run.run.id, "--runs", str(runs), "--json")[1])
    assert (told["parent"], told["fix"], told["run"]) == (run.run.id, None, None)
    assert len(list(runs.iterdir())) == 1


def test_findings_without_a_fix_that_can_be_applied_are_refused(runs: Path, call: Call) -> None:
    sample = SampleRun.create(runs, "grpo-fail")
    sample.print(b"OSError: [Errno 28] No space left on device\n")
    sample.say("failed")
    code, said = call("fix", "grpo-fail", "--runs", str(runs))
    assert code == 2
    assert "run 'grpo-fail' has no fix that can be applied" in said


def test_diagnose_says_what_a_log_says_inertly(runs: Path, call: Call) -> None:
    sample = SampleRun.create(runs, "grpo-fail")
    sample.print(OOM + b" \x1b[2J\x1b]0;owned\x07")
    sample.say("failed")
    code, said = call("diagnose", "grpo-fail", "--runs", str(runs))
    assert code == 1
    assert "\x1b" not in said and "CRITICAL: GPU out of memory in training" in said


def test_a_dry_run_names_the_new_run_its_weights_and_the_preflight(
    fixable: Run, runs: Path, call: Call
) -> None:
    said = call("fix", "grpo-fail", "--runs", str(runs), "--dry-run")[1]
    assert "new run: grpo-fail-fix\ncheckpoints: checkpoints/grpo-fail-fix\n" in said
    assert "preflight checks passed" in said
    told = json.loads(call("fix", "grpo-fail", "--runs", str(runs), "--dry-run", "--json")[1])
    assert told["checkpoint_dir"] == "checkpoints/grpo-fail-fix"


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_dry_run_refuses_what_the_launch_refuses(
    fixable: Run, runs: Path, call: Call, dry: tuple[str, ...]
) -> None:
    change_manifest(fixable, cwd="/elsewhere")
    vouch(fixable)
    code, said = call("fix", "grpo-fail", "--runs", str(runs), *dry)
    assert code == 2
    assert "cd /elsewhere" in said
