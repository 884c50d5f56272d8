"""``launch --device`` restricts a run to GPUs, which its manifest records."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.launch.launcher import manifest
from engine.launch.plan_launch import Device, Order, parse_device, plan_launches
from tests.engine.checks.project import Project, make_project
from tests.grubrics_tui.conftest import Call, call

__all__ = ["call"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return make_project(tmp_path)


@pytest.mark.parametrize(
    ("text", "override", "gpus"),
    [
        ("cpu", "grubrics.device=cpu", None),
        ("cuda", "grubrics.device=cuda", None),
        ("cuda:1", "grubrics.device=cuda", "1"),
        ("cuda:0,01", "grubrics.device=cuda", "0,1"),
    ],
)
def test_a_device_is_an_override_and_variables(text: str, override: str, gpus: str | None) -> None:
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    variables = {} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus, **order}
    assert parse_device(text, {}) == Device(override, variables)


@pytest.mark.parametrize("text", ["", "gpu", "cpu:0", "cuda:", "cuda:1,", "cuda:-1", "cuda:1,1"])
def test_what_is_no_device_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--device"):
        parse_device(text, {})


def test_a_gpu_that_the_shell_hides_is_refused() -> None:
    env = {"CUDA_VISIBLE_DEVICES": "2,3"}
    assert parse_device("cuda:3", env).variables["CUDA_VISIBLE_DEVICES"] == "3"
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES=2,3 hides GPU 1; choose one of"):
        parse_device("cuda:1,2", env)
    assert parse_device("cuda:1", {"CUDA_VISIBLE_DEVICES": "MIG-1a"}).variables


@pytest.mark.row("A04")
def test_the_manifest_and_the_trainer_get_the_gpus(project: Project) -> None:
    device = parse_device("cuda:1", {})
    order = Order(name="one", variables=device.variables)
    [planned] = plan_launches(project.config("grpo", device.override), Path("runs"), order)
    assert planned.variables["CUDA_VISIBLE_DEVICES"] == "1"
    assert manifest(planned).variables == dict(device.variables)
    assert planned.argv[-1] == "grubrics.device=cuda"


@pytest.mark.row("A04")
def test_a_gpu_that_is_not_there_stops_the_launch(project: Project, call: Call) -> None:
    code, printed = call("launch", "grpo", "--device", "cuda:7", "--dry-run")
    assert code == 2
    assert "CUDA_VISIBLE_DEVICES=7" in printed
    assert "but 0 NVIDIA GPUs are visible here" in printed


def test_a_cluster_chooses_its_gpus_itself(project: Project, call: Call) -> None:
    code, printed = call("launch", "grpo", "--device", "cuda:1", "--ray", "http://127.0.0.1:9")
    assert code == 2
    assert "--device: the Ray cluster chooses the GPUs" in printed
