"""``grubrics-tui wandb`` with the real W&B and a server of its protocol on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.logs.formats.wandb_folders import find_wandb_folders
from engine.run.processes import identify
from engine.run.run import Run
from engine.run.state import RunState, write_state
from grubrics_tui.cli import app
from tests.engine.logs.formats.samples import message, wandb_log
from tests.loopback import serving
from tests.wandb_server import WandbServer

DONE = message((18, message((1, 0))))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with no variables of W&B."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def server(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    with serving(WandbServer()) as running:
        for name, text in running.environment.items():
            monkeypatch.setenv(name, text)
        yield running


def offline_run(folder: Path, run_id: str, *records: bytes, kind: str = "offline-run") -> Path:
    path = folder / "wandb" / f"{kind}-20260101_120000-{run_id}"
    path.mkdir(parents=True)
    run = message((17, message((1, run_id), (3, "project"), (8, f"name-{run_id}"))))
    (path / f"run-{run_id}.wandb").write_bytes(wandb_log([run, *(records or (DONE,))]))
    return path


def of_a_run(runs: Path, run_id: str, state: str = "finished") -> Path:
    run = Run(runs / run_id)
    run.path.mkdir(parents=True)
    jsonl.write_json(run.manifest_file, {"v": 1, "id": run_id, "kind": "grpo"})
    supervisor = identify(os.getpid()) if state == "running" else None
    write_state(run, RunState(state, heartbeat=time.time(), supervisor=supervisor))  # type: ignore[arg-type]
    return offline_run(run.path, run_id)


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["wandb", *words])


def listed(*words: str) -> dict[str, dict[str, object]]:
    rows = json.loads(call("ls", "--json", *words).stdout)["wandb"]
    return {row["id"]: row for row in rows}


@pytest.mark.row("V25")
def test_ls_finds_runs_of_w_and_b_in_runs_in_its_folder_and_here(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_DIR", str(project / "elsewhere"))
    of_a_run(project / "runs", "own")
    offline_run(project / "elsewhere", "far")
    path = offline_run(project, "here")
    offline_run(project, "seen", kind="run")
    (path / "run-here.wandb.synced").touch()
    rows = listed()
    assert {name: (row["offline"], row["synced"]) for name, row in rows.items()} == {
        "own": (True, False),
        "far": (True, False),
        "here": (True, True),
        "seen": (False, None),
    }
    assert rows["own"]["name"] == "name-own"


def test_ls_searches_a_folder_that_is_named(project: Path) -> None:
    offline_run(project / "artifacts" / "model-2026", "far")
    assert [*listed("artifacts")] == ["far"]
    assert call("ls").stdout == "no runs of W&B found\n"


def test_an_online_run_has_the_url_that_its_console_names(project: Path) -> None:
    run = Run(project / "runs" / "own")
    of_a_run(project / "runs", "other")
    run.attempt(1).path.mkdir(parents=True)
    jsonl.write_json(run.manifest_file, {"v": 1, "id": "own", "kind": "grpo"})
    write_state(run, RunState("finished"))
    offline_run(run.path, "own", kind="run")
    styled = "wandb: 🚀 View run at \x1b[34m\x1b[4mhttps://w.example/lab/p/runs/own\x1b[0m\n"
    run.attempt(1).console.write_text(styled)
    assert listed()["own"]["url"] == "https://w.example/lab/p/runs/own"


def test_a_log_that_grew_after_the_upload_is_not_synced(project: Path) -> None:
    path = offline_run(project, "here")
    (path / "run-here.wandb.synced").touch()
    os.utime(path / "run-here.wandb.synced", (1, 1))
    assert listed()["here"]["synced"] is False


def real_run(folder: Path, run_id: str) -> None:
    """An offline run that W&B itself wrote."""
    program = "import wandb; wandb.init(project='p').log({'loss': 1.0}); wandb.finish()"
    own = {"WANDB_MODE": "offline", "WANDB_DIR": str(folder), "WANDB_RUN_ID": run_id}
    env = {**os.environ, **own, "WANDB_SILENT": "true"}
    subprocess.run([sys.executable, "-c", program], env=env, check=True)


@pytest.mark.waits
@pytest.mark.row("V25")
def test_sync_uploads_each_run_and_one_failure_does_not_stop_the_others(
    project: Path, server: WandbServer
) -> None:
    pytest.importorskip("wandb")
    for run_id in ("one", "two", "three"):
        real_run(project, run_id)
    server.refusal, server.refused_runs = (403, "permission denied"), {"two"}
    done = call("sync", "--all", "--timeout", "120")
    assert done.exit_code == 1
    assert "two: failed: permission denied" in done.stdout
    assert "2 of 3 uploaded" in done.stdout
    assert f"{server.url}/lab/p/runs/one" in done.stdout
    synced = {name: row["synced"] for name, row in listed().items()}
    assert synced == {"one": True, "two": False, "three": True}


def stub(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A program in place of ``wandb sync``; its last argument is the folder."""
    program = folder / "stub.sh"
    program.write_text(f"#!/bin/sh\nfor last; do :; done\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setattr("engine.supervise.wandb_sync.sync_command", lambda: [str(program)])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo 'wandb: No runs to sync.'", "No runs to sync."),
        ("echo 'wandb: ERROR entity nobody not found'", "entity nobody not found"),
        ("echo 'Error: No API key configured.'; exit 1", "No API key configured."),
        ("exec sleep 60", "no end after 1 s"),
        ("exit 0", "wandb sync printed nothing"),
    ],
)
def test_only_the_mark_of_w_and_b_is_a_success(
    project: Path, monkeypatch: pytest.MonkeyPatch, body: str, problem: str
) -> None:
    offline_run(project, "one")
    stub(project, monkeypatch, body)
    done = call("sync", "one", "--timeout", "1")
    assert done.exit_code == 1
    assert f"failed: {problem}" in done.stdout


def test_what_is_still_written_is_not_uploaded(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_a_run(project / "runs", "own", "running")
    offline_run(project, "open", message((2, b"")))
    stub(project, monkeypatch, "touch $last/uploaded")
    done = call("sync", "--all")
    assert done.exit_code == 1
    assert "has no end" in done.stdout and "run 'own' is still active" in done.stdout
    assert not list(project.rglob("uploaded"))


def test_sync_of_all_says_where_it_searched_if_there_is_nothing(project: Path) -> None:
    done = call("sync", "--all")
    assert done.exit_code == 0
    assert "$WANDB_DIR" in done.stdout and "./wandb" in done.stdout


def test_sync_without_a_name_asks_for_one(project: Path) -> None:
    assert isinstance(call("sync").exception, UsageError)
    assert isinstance(call("sync", "nobody").exception, UsageError)
    assert isinstance(call("push").exception, UsageError)


def test_clean_deletes_what_is_uploaded_and_only_after_a_yes(project: Path) -> None:
    uploaded, other = offline_run(project, "one"), offline_run(project, "two")
    (uploaded / "run-one.wandb.synced").touch()
    asked = call("clean")
    assert (asked.exit_code, uploaded.exists()) == (1, True)
    assert call("clean", "--dry-run").exit_code == 0 and uploaded.exists()
    done = call("clean", "--yes")
    assert (done.exit_code, uploaded.exists(), other.exists()) == (0, False, True)
    assert "1 offline runs are not uploaded and stay" in done.stdout


def test_a_link_is_not_a_run(project: Path) -> None:
    path = offline_run(project / "far", "one")
    (project / "wandb").mkdir()
    (project / "wandb" / path.name).symlink_to(path)
    assert find_wandb_folders([project / "wandb"]) == []


def test_clean_deletes_nothing_that_a_link_leads_to(project: Path) -> None:
    far = offline_run(project / "far", "one")
    (far / "run-one.wandb.synced").touch()
    inside = offline_run(project, "two") / "files"
    inside.symlink_to(project / "far")
    (inside.parent / "run-two.wandb.synced").touch()
    (project / "wandb" / "more").symlink_to(project / "far")
    of_a_run(project / "runs", "own")
    (project / "runs" / "other").mkdir()
    (project / "runs" / "other" / "wandb").symlink_to(far.parent)
    done = call("clean", "--yes")
    assert (done.exit_code, far.exists(), inside.parent.exists()) == (0, True, False)


def test_an_upload_has_at_least_a_second(project: Path) -> None:
    refused = str(call("sync", "--all", "--timeout", "0").exception)
    assert refused == "--timeout 0: write a number of seconds, at least 1"
