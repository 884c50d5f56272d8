"""``container`` prints how to launch a config in a container, and starts nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.checks.environment import GPU_SET
from tests.engine.checks.project import Project
from tests.grubrics_tui.conftest import Call
from tests.paths import ROOT

pytestmark = pytest.mark.long

KEY = "sk-proj-abcdefghij0123456789"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("HF_HOME", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def value(call: Call, *words: str) -> dict[str, Any]:
    code, printed = call("container", *words, "--json")
    assert code == 0, printed
    return dict(json.loads(next(line for line in printed.splitlines() if line.startswith("{"))))


@pytest.mark.row("V03")
def test_the_command_line_has_image_mounts_and_working_folder(project: Project, call: Call) -> None:
    folder = str(project.root)
    plan = value(call, "grpo", "lr=1e-5")
    assert plan["argv"][:2] == ["docker", "run"]
    assert f"--workdir={folder}" in plan["argv"]
    assert f"--mount=type=bind,source={folder},target={folder}" in plan["argv"]
    assert "--shm-size=16g" in plan["argv"]
    launch = ["grubrics-tui", "launch", "grpo", "lr=1e-5", "--wait"]
    assert plan["argv"][-6:] == [plan["image"], *launch]


@pytest.mark.row("V03")
def test_the_image_is_built_from_the_exact_pins_without_the_rest(
    project: Project, call: Call
) -> None:
    gpu = value(call, "grpo", "grubrics.device=cuda")
    assert gpu["image"] == "grubrics-tui:verl0.9.1-vllm0.24.0-torch2.11.0"
    assert "--gpus=all" in gpu["argv"]
    pins = (ROOT / "constraints-gpu.txt").read_text().split()
    assert {*GPU_SET} <= {*pins}
    assert "-c constraints-gpu.txt '.[gpu]'" in gpu["build"]
    assert "COPY . " not in gpu["build"]
    copied = [line.split()[1] for line in gpu["build"].splitlines() if line.startswith("COPY ")]
    assert all((ROOT / name).exists() for name in copied)
    cpu = value(call, "grpo", "grubrics.device=cpu")
    assert "--gpus=all" not in cpu["argv"]
    assert "-c constraints-cpu.txt '.[train]'" in cpu["build"]


def test_what_is_outside_of_the_project_is_mounted_at_its_path(
    project: Project, call: Call, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    model, saved = other / "model", other / "saved"
    model.mkdir()
    path, folder = "actor_rollout_ref.model.path", "trainer.default_local_dir"
    plan = value(call, "grpo", f"{path}={model}", f"{folder}={saved}")
    mounts = {mount["path"]: mount["writable"] for mount in plan["mounts"]}
    assert (mounts[str(model)], mounts[str(saved)]) == (False, True)
    assert str(saved) in plan["missing"]
    assert f"--mount=type=bind,source={model},target={model},readonly" in plan["argv"]


def test_a_model_of_the_hub_brings_its_cache(project: Project, call: Call) -> None:
    plan = value(call, "grpo", "actor_rollout_ref.model.path=acme/small-1b")
    cache = Path("~/.cache/huggingface").expanduser()
    assert str(cache) in [mount["path"] for mount in plan["mounts"]]


@pytest.mark.row("V03")
def test_keys_are_passed_by_their_names(
    project: Project, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    _, printed = call("container", "grpo")
    assert "--env=OPENAI_API_KEY " in printed
    assert KEY not in printed


@pytest.mark.parametrize("engine", ["docker", "apptainer"])
def test_what_is_printed_is_a_script_of_these_commands(
    engine: str, project: Project, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of that name writes down its words, as a shell reads them."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / engine).write_text('#!/bin/sh\nprintf "%s\\n" "$*" >> calls\n')
    (tools / engine).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    plan = value(call, "grpo", "lr=1e-5", "--engine", engine)
    code, script = call("container", "grpo", "lr=1e-5", "--engine", engine)
    assert code == 0
    subprocess.run(["sh", "-ec", script], check=True)
    build, run = Path("calls").read_text().splitlines()
    assert build.startswith(f"{engine} build".removeprefix(f"{engine} "))
    assert run == " ".join(plan["argv"][1:])


def test_print_is_what_it_does_anyway(project: Project, call: Call) -> None:
    assert call("container", "grpo", "--print") == call("container", "grpo")


def test_an_own_image_is_not_built(project: Project, call: Call) -> None:
    plan = value(call, "grpo", "--image", "registry.example/verl:1")
    assert plan["build"] is None
    assert "registry.example/verl:1" in plan["argv"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--engine", "dokcer"), "engine 'dokcer' does not exist; did you mean 'docker'?"),
        (("--shm", "much"), "--shm much: write a size such as 16g"),
    ],
)
def test_wrong_options_are_one_line(
    words: tuple[str, ...], expected: str, project: Project, call: Call
) -> None:
    code, printed = call("container", "grpo", *words)
    assert (code, expected in printed) == (2, True)


@pytest.mark.row("V03")
def test_a_machine_without_the_program_is_told(
    project: Project, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert "warning: docker is not on the PATH of this machine" in call("container", "grpo")[1]
