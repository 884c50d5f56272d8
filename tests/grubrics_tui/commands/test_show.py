"""What the command line tells about runs, to a person and to a program."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from engine.run.run import Run
from engine.run.trust import vouch
from grubrics_tui.cli import app
from tests.grubrics_tui.sample_run import SampleRun
from tests.manifests import change_manifest


def told(*arguments: str, runs: Path) -> str:
    done = CliRunner().invoke(app, [*arguments, "--runs", str(runs)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_times_durations_and_sizes_are_readable(run: SampleRun, runs: Path) -> None:
    run.say("finished", started=1e9, ended=1e9 + 3725)
    text = told("show", "grpo-night", runs=runs)
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(1e9))
    assert re.search(rf"(?m)^time +{began} to .*, elapsed 1:02:05$", text)
    assert re.search(r"(?m)^dir +.* \d+ KiB$", text)
    assert re.search(r"(?m)^step +12/40$", text)
    assert "None" not in text and "1000000000" not in text


def test_an_override_that_says_what_the_file_says_is_no_change(run: SampleRun, runs: Path) -> None:
    changes = [
        {"key": "data.seed", "before": 1, "after": 1, "origin": "cli"},
        {"key": "judge.model", "before": "a", "after": "b", "origin": "cli"},
    ]
    change_manifest(run.run, changes=changes)
    vouch(run.run)
    text = told("show", "grpo-night", runs=runs)
    assert re.findall(r"(?m)^override +(.*)$", text) == ["judge.model: a -> b (cli)"]


@pytest.mark.row("V29")
def test_a_run_that_logs_to_w_and_b_has_its_url(run: SampleRun, runs: Path) -> None:
    assert "wandb" not in told("show", "grpo-night", runs=runs)
    with run.run.attempt(1).console.open("a") as console:
        console.write("wandb: 🚀 View run at https://wandb.example/lab/p/runs/grpo-night\n")
    text = told("show", "grpo-night", runs=runs)
    assert re.search(r"(?m)^wandb +https://wandb.example/lab/p/runs/grpo-night$", text)


def test_a_command_of_several_lines_can_be_copied(run: SampleRun, runs: Path) -> None:
    argv = ["sh", "-c", "for x in 1 2\ndo\n    echo  $x\ndone"]
    change_manifest(run.run, argv=argv)
    vouch(run.run)
    (line,) = re.findall(r"(?m)^command +(.*)$", told("show", "grpo-night", runs=runs))
    assert subprocess.run(["bash", "-c", line], capture_output=True).stdout == b"1\n2\n"
    assert json.loads(told("show", "grpo-night", "--json", runs=runs))["argv"] == argv


def test_a_resumed_run_began_when_its_first_attempt_did(run: SampleRun, runs: Path) -> None:
    manifest = run.run.read_full_manifest()
    resumed = replace(manifest.attempts[0], number=2, started=2e9)
    run.run.write_manifest(replace(manifest, attempts=[*manifest.attempts, resumed]))
    vouch(run.run)
    run.say("finished", attempt=2, started=1e9 + 500, ended=1e9 + 560, ran_before=40, began=1e9)
    text = told("show", "grpo-night", runs=runs)
    first, last, end = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(1e9 + after)) for after in (0, 500, 560)
    )
    assert f"{first} to {end}, elapsed 1:40 (attempts only)" in text
    assert re.search(rf"(?m)^attempts +2, latest since {last}$", text)
    (row,) = json.loads(told("runs", "--json", runs=runs))["runs"]
    assert row["started"] == 1e9


def test_json_keeps_the_values_as_they_are(run: SampleRun, runs: Path) -> None:
    run.say("finished", started=1e9, ended=1e9 + 60, ran_before=40)
    found = json.loads(told("show", "grpo-night", "--json", runs=runs))
    assert (found["started"], found["ended"], found["duration_s"]) == (1e9, 1e9 + 60, 100)
    assert found["signal"] is None


def test_a_stopped_run_differs_from_a_finished_one(run: SampleRun, runs: Path) -> None:
    run.say("finished", reason="stopped by user at step 12 of 40")
    assert "stopped by user at step 12 of 40" in told("runs", runs=runs)
    assert told("runs", "--filter", "state:finished", runs=runs) == "no runs match the filter\n"
    assert "grpo-night" in told("runs", "--filter", "state:stopped", runs=runs)
    (only,) = json.loads(told("runs", "--json", runs=runs))["runs"]
    shown = json.loads(told("show", "grpo-night", "--json", runs=runs))
    assert only["state"] == shown["state"] == "stopped"


def test_a_run_without_a_step_has_a_dash_where_the_screen_has_one(runs: Path) -> None:
    SampleRun.create(runs, "new")
    assert " –/40 " in told("runs", runs=runs)


def test_an_empty_folder_says_how_to_begin(runs: Path) -> None:
    text = told("runs", runs=runs)
    assert all(f"grubrics-tui {command}" in text for command in ("demo", "watch", "init"))
    assert told("runs", "--archived", runs=runs) == "no archived runs\n"
    assert json.loads(told("runs", "--json", runs=runs)) == {"runs": []}


def test_a_text_that_no_reader_understands_is_refused_in_one_line(tmp_path: Path) -> None:
    notes = tmp_path / "README.md"
    notes.write_text("Set actor_rollout_ref.model.path, then start verl.trainer.\n")
    done = CliRunner().invoke(app, ["watch", str(notes)])
    assert done.stdout == ""
    problem = f"{notes}: contains no step yet; looked for offline W&B run"
    assert str(done.exception).startswith(problem)


@pytest.mark.parametrize("name", ["show", "runs"])
def test_a_name_with_escape_sequences_is_inert(runs: Path, name: str) -> None:
    sample = SampleRun.create(runs, "odd")
    sample.say("failed", reason="\x1b]0;owned\x07\x1b[31mred")
    arguments = ("show", Run(sample.run.path).id) if name == "show" else ("runs",)
    assert "\x1b" not in told(*arguments, runs=runs)


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(app, ["--version"]).output.startswith("grubrics-tui ")


def test_the_directory_of_runs_can_be_named_before_the_command(
    run: SampleRun, runs: Path, tmp_path: Path
) -> None:
    run.say("finished", started=1e9, ended=1e9 + 60)  # No clock runs in its times.
    for words in (["show", "grpo-night"], ["metrics", "grpo-night"], ["reap"], ["queue"]):
        before = CliRunner().invoke(app, ["--runs", str(runs), *words])
        after = CliRunner().invoke(app, [*words, "--runs", str(runs)])
        assert (before.exit_code, before.output) == (0, after.output)
    both = CliRunner().invoke(
        app, ["--runs", str(tmp_path), "show", "grpo-night", "--runs", str(runs)]
    )
    assert both.exit_code == 0, "the option of the command comes first"
