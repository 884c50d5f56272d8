"""``diagnose`` answers a person in words, a program in JSON, and a script by its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.base.errors import UsageError
from engine.run.finding import Change, Finding, Fix, Severity
from grubrics_tui.cli import app
from grubrics_tui.commands.shared.finding_text import finding_lines
from tests.grubrics_tui.sample_run import SampleRun
from tests.manifests import change_manifest

Call = Callable[..., tuple[int, str]]
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n"


@pytest.fixture
def unhealthy(tmp_path: Path) -> Path:
    log = tmp_path / "unhealthy.log"
    log.write_text(f"hello\n{OOM}ray.exceptions.ActorDiedError: The actor died unexpectedly\n")
    return log


def test_the_text_shows_finding_evidence_cause_and_fixes(unhealthy: Path) -> None:
    done = CliRunner().invoke(app, ["diagnose", str(unhealthy)])
    assert done.exit_code == 1
    assert "CRITICAL: GPU out of memory in training  [cuda_oom_training.oom]" in done.stdout
    assert f"evidence: {unhealthy}:2: torch.OutOfMemoryError" in done.stdout
    assert "advice: Use smaller micro batches" in done.stdout
    assert "consequence: A Ray worker died" in done.stdout


def test_json_holds_the_same_as_the_text(unhealthy: Path) -> None:
    [found] = json.loads(CliRunner().invoke(app, ["diagnose", "--json", str(unhealthy)]).stdout)[
        "findings"
    ]
    assert (found["id"], found["severity"]) == ("cuda_oom_training.oom", "critical")
    assert found["evidence"][0]["offset"] == len("hello\n")
    assert {"onset_step", "cause", "fixes", "confidence", "not_checked"} <= found.keys()
    assert [one["id"] for one in found["followed_by"]] == ["ray_start_or_worker_died.died"]


def test_a_command_is_shown_as_typed_and_a_value_as_set() -> None:
    changes = (Change("command", "judge", "grubrics-tui judge-test"), Change("config", "a.b", 2))
    fix = Fix("Test the judge", changes)
    lines = [*finding_lines([Finding("judge_auth", Severity.ERROR, "t", "c", fixes=(fix,))])]
    assert [line.strip() for line in lines[-2:]] == ["$ grubrics-tui judge-test", "a.b=2"]


def test_of_a_command_no_fix_can_be_applied(tmp_path: Path) -> None:
    sample = SampleRun.create(tmp_path / "runs", "grpo-fail")
    sample.print(OOM.encode())
    sample.say("failed", reason="exit code 1")
    assert "apply a fix:" in diagnosed(sample)
    change_manifest(sample.run, kind="command")
    assert "apply a fix:" not in diagnosed(sample)


def diagnosed(sample: SampleRun) -> str:
    return CliRunner().invoke(app, ["diagnose", str(sample.run.path)]).stdout


def test_of_a_log_nothing_can_be_launched(unhealthy: Path) -> None:
    told = CliRunner().invoke(app, ["diagnose", str(unhealthy)]).stdout
    assert "advice: Use smaller micro batches" in told and "apply a fix:" not in told


def test_each_of_many_sources_is_reported_below_its_name(unhealthy: Path, tmp_path: Path) -> None:
    fine = tmp_path / "fine.log"
    fine.write_text("all is well\n")
    lines = CliRunner().invoke(app, ["diagnose", str(unhealthy), str(fine)]).stdout.splitlines()
    assert lines[0] == f"== {unhealthy}"
    assert any(line.startswith(f"== {fine}: no known problems") for line in lines)


def test_a_healthy_log_ends_with_0(tmp_path: Path) -> None:
    log = tmp_path / "fine.log"
    log.write_text("all is well\n")
    done = CliRunner().invoke(app, ["diagnose", str(log)])
    read = "read: 1 line of text in no known log format"
    nothing = "No known problems found."
    assert (done.exit_code, done.stdout.splitlines()) == (0, [nothing, read])


def test_what_was_read_of_a_healthy_training_is_its_kind_and_how_far_it_goes(
    tmp_path: Path, run: SampleRun, runs: Path
) -> None:
    log = tmp_path / "fine.log"
    log.write_text("".join(f"step:{n} - critic/score/mean:0.{n}\n" for n in range(1, 9)))
    said = CliRunner().invoke(app, ["diagnose", str(log)]).stdout
    assert "read: verl console log, up to step 8" in said
    said = CliRunner().invoke(app, ["diagnose", run.run.id, "--runs", str(runs)]).stdout
    assert "read: a run, running, up to step 12" in said


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty"),
        (b" \n\n", "contains only white space"),
        (bytes(range(256)) * 40, "contains no readable text"),
        ("all is well".encode("utf-16"), "contains no readable text"),
    ],
)
def test_what_holds_no_text_is_unusable(tmp_path: Path, call: Call, data: bytes, told: str) -> None:
    log = tmp_path / "odd.log"
    log.write_bytes(data)
    code, said = call("diagnose", str(log))
    assert code == 2 and f"odd.log: {told}" in said


def test_of_many_an_unusable_one_hides_none_of_the_others(unhealthy: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "fine.log").write_text("all is well\n")
    empty, fine = str(tmp_path / "empty.log"), str(tmp_path / "fine.log")
    done = CliRunner().invoke(app, ["diagnose", empty, str(unhealthy)])
    assert f"== {empty}: is empty" in done.stdout and done.exit_code == 1
    assert CliRunner().invoke(app, ["diagnose", empty, fine]).exit_code == 2


def test_the_end_of_a_log_that_a_crash_filled_with_zeros_hides_nothing(tmp_path: Path) -> None:
    log = tmp_path / "crash.log"
    log.write_bytes(b"all is well\n" * 9000 + bytes(100_000))
    assert CliRunner().invoke(app, ["diagnose", str(log)]).exit_code == 0


def test_a_run_is_found_by_its_id(run: SampleRun, runs: Path) -> None:
    run.say("failed", reason="exit code 1")
    (runs / "grpo-night" / "attempt_1").mkdir(exist_ok=True)
    (runs / "grpo-night" / "attempt_1" / "console.log").write_text(OOM)
    done = CliRunner().invoke(app, ["diagnose", "--json", "grpo-night", "--runs", str(runs)])
    assert json.loads(done.stdout)["findings"][0]["id"] == "cuda_oom_training.oom"


@pytest.mark.parametrize("name", ["missing.log", "no/such/file", "nobody"])
def test_what_does_not_exist_is_refused(name: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["diagnose", name, "--runs", str(tmp_path)])
    assert isinstance(done.exception, UsageError)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["diagnose", str(tmp_path)])
    assert isinstance(done.exception, UsageError)
