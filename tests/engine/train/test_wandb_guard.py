"""verl's trackers with the real W&B: the training goes on when W&B does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.run.history import metrics
from engine.run.run import Attempt
from engine.train.wandb_guard import GuardedWandb, split_backends, start_wandb
from tests.loopback import serving
from tests.paths import ROOT
from tests.wandb_server import WandbServer

pytest.importorskip("wandb")

# As verl's trainers log: two steps, then the end.
_TRAINER = """
from engine.train import patches
patches.keep_training_without_wandb()
patches.log_rewards_with_steps()
from verl.utils.tracking import Tracking
tracking = Tracking("project", "from the config", ["console", "wandb", "file"], {"trainer": {}})
for step in (1, 2):
    tracking.log({"loss": 1.0 / step, "timing_s/step": 10.0}, step)
tracking.finish()
print("trained to the end")
"""


@pytest.fixture
def server() -> Iterator[WandbServer]:
    with serving(WandbServer()) as running:
        yield running


def train(folder: Path, **env: str) -> str:
    """The output of the trainer; its steps are in the file of verl's own logger."""
    steps = folder / "metrics.jsonl"
    own = {"VERL_FILE_LOGGER_PATH": str(steps), "WANDB_DIR": str(folder), "WANDB_NAME": "m-b4"}
    mine = {name: text for name, text in os.environ.items() if not name.startswith("WANDB_")}
    done = subprocess.run(
        [sys.executable, "-c", _TRAINER],
        env={**mine, "HOME": str(folder), "PYTHONPATH": str(ROOT), **own, **env},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0 and "trained to the end" in output, output
    assert [json.loads(line)["step"] for line in steps.read_text().splitlines()] == [1, 2]
    return output


@pytest.mark.thorough
@pytest.mark.row("V13", "V24")
def test_the_name_of_the_run_replaces_the_constant_of_the_config(
    tmp_path: Path, server: WandbServer
) -> None:
    env = {**server.environment, "WANDB_RUN_ID": "r1", "WANDB_RUN_GROUP": "g", "WANDB_TAGS": "a,b"}
    assert "W&B failed" not in train(tmp_path, **env)
    first = server.runs[0]
    assert (first["name"], first["displayName"], first["groupName"]) == ("r1", "m-b4", "g")
    assert first["tags"] == ["a", "b"]
    assert list(tmp_path.glob("wandb/run-*-r1/run-r1.wandb"))


@pytest.mark.row("G47", "G58")
def test_every_logger_gets_the_metrics_that_guides_filter_for(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path / "attempt_1")
    attempt.path.mkdir()
    times = {"judge_latency_s": 2.0, "semaphore_wait_s": 0.5, "t": 10.0, "duration_s": 2.5}
    for step, reward in ((1, 0.25), (1, 0.75), (2, 1.0)):
        record = {"split": "train", "step": step, "group": "g", "reward": reward, **times}
        jsonl.append(attempt.reward, record)
    output = train(tmp_path, WANDB_MODE="offline", GRUBRICS_ATTEMPT_DIR=str(attempt.path))
    first, _ = (record["data"] for record in jsonl.read(tmp_path / "metrics.jsonl"))
    assert first["train/reward_mean"] == first["reward/mean"] == 0.5
    assert first["train/reward_std"] == 0.25
    assert first["timing/judge_api_latency_s"] == 2.0
    assert first["timing/gpu_phase_duration_s"] == 7.5
    assert "timing/semaphore_wait_s:0.5" in output
    (log,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    written = log.read_bytes()
    assert all(name.encode() in written for name in metrics.TRACKED)


@pytest.mark.thorough
def test_a_refused_login_lets_w_and_b_log_offline(tmp_path: Path, server: WandbServer) -> None:
    server.knows_key = False
    output = train(tmp_path, **server.environment)
    assert output.count("W&B failed: CommError: user is not logged in. The run continues") == 1
    (log,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert b"loss" in log.read_bytes()


@pytest.mark.thorough
def test_the_training_goes_on_if_w_and_b_cannot_be_imported(tmp_path: Path) -> None:
    broken = tmp_path / "broken"  # The working folder is searched last.
    broken.mkdir()
    (broken / "wandb.py").write_text("raise ImportError('No module named wandb')")
    output = train(tmp_path, PYTHONPATH=f"{broken}:{ROOT}")
    assert "W&B gets no values of this attempt" in output


class Broken:
    """A module whose process has died."""

    def __init__(self) -> None:
        self.calls = 0

    def log(self, **_: Any) -> None:
        self.calls += 1
        raise ConnectionResetError("[Errno 104] Connection reset by peer")

    finish = log


def test_after_a_failure_in_a_step_w_and_b_is_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = Broken()
    guarded = GuardedWandb(broken)
    guarded.log({"loss": 1.0}, 1)
    guarded.log({"loss": 1.0}, 2)
    guarded.finish()
    assert broken.calls == 1
    assert capsys.readouterr().err.count("W&B failed: ConnectionResetError") == 1


def test_a_run_that_is_offline_is_started_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    names: list[str] = []

    def start(name: str) -> dict[str, Any]:
        names.append(name)
        raise OSError("no space left on device")

    assert start_wandb(start, "name") == {}
    assert names == ["name"]


@pytest.mark.parametrize(
    ("backends", "asks", "others"),
    [
        ("wandb", True, []),
        (["console", "wandb"], True, ["console"]),
        ("console", False, ["console"]),
    ],
)
def test_w_and_b_is_started_apart(backends: Any, asks: bool, others: list[str]) -> None:
    assert split_backends(backends) == (asks, others)
