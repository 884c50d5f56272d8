"""What a run gives to and takes from a Ray cluster that it attaches to."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import ray
from ray.exceptions import GetTimeoutError, RaySystemError

from engine.supervise.ray_jobs import RayJob
from engine.train import ray_attach


@pytest.mark.parametrize(
    ("env", "device", "attaches"),
    [
        ({}, "cuda", False),
        ({"RAY_ADDRESS": "local"}, "cuda", False),
        ({"RAY_ADDRESS": "head:6379"}, "cuda", True),
        ({"RAY_ADDRESS": "head:6379"}, "cpu", False),
        ({"RAY_ADDRESS": "head:6379", "GRUBRICS_ON_CLUSTER": "1"}, "cpu", True),
    ],
)
def test_a_job_attaches_and_so_does_a_gpu_run_by_hand_with_ray_address(
    env: dict[str, str], device: str, attaches: bool
) -> None:
    assert ray_attach.should_attach(env, device) is attaches


def test_an_existing_cluster_gets_no_size() -> None:
    ray_init = {"num_cpus": 12, "num_gpus": 1, "include_dashboard": False, "namespace": "n"}
    config = {"ray_kwargs": {"ray_init": ray_init, "timeline_json_file": None}, "trainer": {}}
    attached = ray_attach.with_cluster_options(config)
    assert attached["ray_kwargs"] == {"ray_init": {"namespace": "n"}, "timeline_json_file": None}
    assert config["ray_kwargs"]["ray_init"] is ray_init


def test_workers_get_the_plugin_and_the_mark_and_nothing_else_of_the_environment() -> None:
    env = {
        "GRUBRICS_RUN_ID": "r",
        "PYTHONPATH": "/mine",
        "VERL_USE_EXTERNAL_MODULES": "engine.train.plugin",
        "OPENAI_API_KEY": "sk-secret",
    }
    runtime = ray_attach.with_runtime_env({"env_vars": {"NCCL_DEBUG": "WARN"}}, env, "cuda")
    assert runtime["env_vars"] == {
        "NCCL_DEBUG": "WARN",
        "VERL_USE_EXTERNAL_MODULES": "engine.train.plugin",
        "PYTHONPATH": "/mine",
        "GRUBRICS_RUN_ID": "r",
        "GRUBRICS_ON_CLUSTER": "1",
        "GRUBRICS_PROJECT": str(Path.cwd()),
    }


def test_a_worker_enters_the_project_and_reads_its_env_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("SOME_JUDGE_KEY=abc\n")
    monkeypatch.setenv("GRUBRICS_PROJECT", str(tmp_path))
    monkeypatch.delenv("SOME_JUDGE_KEY", raising=False)
    monkeypatch.chdir("/")
    ray_attach.enter_project()
    assert Path.cwd() == tmp_path
    assert os.environ.pop("SOME_JUDGE_KEY") == "abc"


def test_a_node_without_the_project_folder_is_left_to_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRUBRICS_PROJECT", str(tmp_path / "not-mounted"))
    ray_attach.enter_project()
    assert Path.cwd() == tmp_path


@pytest.mark.trainer
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("another job", "node-1 does not see"),
        (GetTimeoutError("timed out"), "whether node-1 (Ray started no worker there"),
        (RaySystemError("Traceback ...\nModuleNotFoundError: engine"), "whether node-1 (Modul"),
    ],
)
def test_a_busy_node_is_not_taken_for_one_without_the_folder(
    answer: object, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's answers are given: the real ones take ten minutes, or a second host."""

    def get(_reference: object, timeout: float) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    class Task:
        def options(self, **_options: object) -> Task:
            return self

        def remote(self, *_arguments: object) -> None:
            return None

    node = {"NodeID": "ab" * 28, "NodeManagerHostname": "node-1", "Alive": True}
    RayJob("http://127.0.0.1:1", "this job", "/", ("x",), {}).write(tmp_path)
    monkeypatch.setattr(ray, "nodes", lambda: [node])
    monkeypatch.setattr(ray, "remote", lambda **_options: lambda _task: Task())
    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(ray_attach.NotSharedError, match=re.escape(reason)):
        ray_attach.require_shared(tmp_path)
