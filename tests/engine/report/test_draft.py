"""A draft holds what the run's files hold, and nothing else."""

from __future__ import annotations

from pathlib import Path

from engine.config.config_files import packaged_configs
from engine.report.entry import draft_entry
from tests.engine.report.runs import log_steps, make_run
from tests.manifests import change_manifest


def test_a_draft_is_filled_from_manifest_state_and_train_log(tmp_path: Path) -> None:
    changes = [
        {"key": "judge.model", "before": "a", "after": "b", "origin": "cli"},
        {"key": "data.seed", "before": 1, "after": 1, "origin": "cli"},
    ]
    run = make_run(tmp_path, description="GRPO, tiny", changes=changes)
    log_steps(
        run,
        [
            {"reward/mean": 0.1 * number, "reward/std": 0.2, "judge_api_latency_s": 1.5}
            for number in range(20)
        ],
    )
    entry = draft_entry(run)
    assert entry.title == "GRPO, tiny"
    assert entry.duration == "1:02:05"
    assert entry.config == "- configs/grpo_tiny.yaml\n- judge.model=b (was a, cli)"
    assert entry.result.splitlines() == [
        "- finished",
        "- step 20 of 20",
        "- reward: 0.45 (first 10 steps), 1.45 (last 10 steps)",
        "- reward curve: ▁▁▂▂▂▃▃▄▄▄▅▅▅▆▆▇▇▇██ (steps 1 to 20, 0 to 1.9)",
        "- in-group reward std (population): 0.2 (last 10 steps)",
        "- judge latency: 1.5 s (last 10 steps)",
    ]
    assert "no checkpoint was written" in entry.checkpoint
    assert entry.question == entry.observations == entry.decision == ""


def test_a_packaged_config_is_named_without_its_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path, config_path=str(packaged_configs() / "grpo_tiny.yaml"))
    assert draft_entry(run).config == "grpo_tiny (packaged)"


def test_values_are_written_as_in_a_config(tmp_path: Path) -> None:
    change = {"key": "trainer.x", "before": None, "after": True, "origin": "cli"}
    entry = draft_entry(make_run(tmp_path, changes=[change]))
    assert entry.config.endswith("- trainer.x=true (was null, cli)")


def test_paths_inside_the_project_are_relative_to_it(tmp_path: Path) -> None:
    run = make_run(tmp_path, cwd=str(tmp_path))
    entry = draft_entry(run)
    assert entry.checkpoint == "checkpoints: no checkpoint was written"
    assert entry.directory == "runs/grpo-1"


def test_paths_outside_the_project_stay_absolute(tmp_path: Path) -> None:
    run = make_run(tmp_path, cwd=str(tmp_path / "runs"))
    config = {"trainer.default_local_dir": {"value": f"{tmp_path}/disk", "origin": "file"}}
    change_manifest(run, config=config)
    assert draft_entry(run).checkpoint == f"{tmp_path}/disk: no checkpoint was written"


def test_an_entry_names_the_run_that_was_fixed(tmp_path: Path) -> None:
    run = make_run(tmp_path, parent={"run": "grpo-hot", "relation": "fix"})
    assert draft_entry(run).config == "- fix of grpo-hot\n- configs/grpo_tiny.yaml"


def test_latency_of_a_fast_judge_is_in_milliseconds(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    log_steps(run, [{"judge_api_latency_s": 0.00035}])
    assert "judge latency: 0.35 ms (last step)" in draft_entry(run).result


def test_no_step_is_in_both_means_of_a_short_run(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    log_steps(run, [{"reward/mean": value} for value in (0.0, 0.2, 0.9, 0.4, 0.6)])
    assert "reward: 0.1 (first 2 steps), 0.5 (last 2 steps)" in draft_entry(run).result


def test_an_entry_has_validation_before_and_after(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    log_steps(run, [{"val/reward": 0.25}, {"reward/mean": 0.3}, {"val/reward": 0.5}])
    expected = "validation reward: 0.25 (step 1), 0.5 (step 3)"
    assert expected in draft_entry(run).result


def test_numbers_that_the_files_lack_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    log_steps(run, [{"reward/mean": None}, {}])
    assert draft_entry(run).result == "- finished\n- step 2 of 20"


def test_a_step_that_was_redone_counts_once(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    log_steps(run, [{"reward/mean": 0.0}, {"reward/mean": 0.0}])
    log_steps(run, [{"reward/mean": 1.0}, {"reward/mean": 3.0}], attempt=2)
    assert "reward: 1 (first step), 3 (last step)" in draft_entry(run).result


def test_an_empty_run_directory_still_gives_a_draft(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.manifest_file.unlink()
    run.state_file.unlink()
    entry = draft_entry(run)
    assert entry.title == "run (grpo-1)"
    assert entry.result == "unreadable: no state.json"


def test_an_entry_names_model_seed_and_commit(tmp_path: Path) -> None:
    values = {"actor_rollout_ref.model.path": "Qwen/Qwen3-8B", "grubrics.seed": 3}
    config = {key: {"value": value, "origin": "file"} for key, value in values.items()}
    git = {"commit": "0123456789abcdef", "branch": "main", "dirty": True}
    run = make_run(tmp_path, config=config, git=git)
    assert draft_entry(run).config.splitlines() == [
        "- configs/grpo_tiny.yaml",
        "- model: Qwen/Qwen3-8B",
        "- seed: 3",
        "- commit: 0123456789ab with uncommitted changes",
    ]


def judged(tmp_path: Path, **prices: float) -> str:
    """The result of a run with two steps that were judged."""
    config = {f"judge.{key}": {"value": value} for key, value in prices.items()}
    run = make_run(tmp_path, config=config)
    step = {"judge/calls": 640.0, "judge/tokens_in": 1e6, "judge/tokens_out": 5e4}
    log_steps(run, [step, step])
    return draft_entry(run).result.splitlines()[-1]


def test_calls_and_tokens_of_the_judge_are_added_up(tmp_path: Path) -> None:
    expected = "- judge: 1,280 calls, 2,000,000 tokens in, 100,000 tokens out"
    assert judged(tmp_path) == expected


def test_the_judge_costs_what_the_config_says(tmp_path: Path) -> None:
    line = judged(tmp_path, usd_per_million_in=0.5, usd_per_million_out=2)
    assert line.endswith("100,000 tokens out, $1.20")


def test_a_long_curve_has_a_block_for_every_part_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    log_steps(run, [{"train/loss": 2.0 if n < 500 else 1.0} for n in range(1000)])
    line = next(each for each in draft_entry(run).result.splitlines() if "curve" in each)
    assert line == f"- loss curve: {'█' * 12}{'▁' * 12} (steps 1 to 1000, 1 to 2)"


def test_a_short_run_has_no_curve(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    log_steps(run, [{"reward/mean": 0.1}] * 7)
    assert "curve" not in draft_entry(run).result
