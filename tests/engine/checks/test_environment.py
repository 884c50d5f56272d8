"""The line ``environment``: the software and the hardware that a config asks for."""

from __future__ import annotations

import pytest

from engine.checks import environment
from engine.checks.check import Check
from tests.engine.checks.project import Project

pytestmark = pytest.mark.long

FLASH = "actor_rollout_ref.model.override_config.attn_implementation"


@pytest.fixture
def no_flash(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with every module but FlashAttention."""
    absent = ("flash_attn", "kernels")
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name in absent else object())


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "gpus", lambda: [{"name": "H100", "memory": 80 << 30}])


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "gpus", list)


def check(project: Project, *overrides: str, env: dict[str, str] | None = None) -> Check:
    return project.checks("grpo", "grubrics.device=cuda", *overrides, env=env)["environment"]


@pytest.mark.usefixtures("no_flash", "with_gpu")
def test_a_gpu_config_without_flash_attention_is_refused_with_the_values_to_set(
    project: Project,
) -> None:
    result = check(project)

    assert result.status == "fail"
    assert "needs flash-attn" in result.message
    assert result.fix is not None and f"{FLASH}=sdpa" in result.fix


@pytest.mark.usefixtures("no_flash", "with_gpu")
def test_sdpa_needs_no_flash_attention(project: Project) -> None:
    assert "flash-attn" not in check(project, f"+{FLASH}=sdpa").message


@pytest.mark.usefixtures("no_flash")
def test_what_a_cluster_has_installed_is_not_judged_here(project: Project) -> None:
    assert "flash-attn" not in check(project, env={"RAY_ADDRESS": "auto"}).message


def test_fsdp1_is_refused_on_a_cpu(project: Project) -> None:
    result = project.checks("grpo", "actor_rollout_ref.actor.strategy=fsdp")["config"]

    assert result.status == "fail"
    assert result.fix is not None and "actor_rollout_ref.actor.strategy=fsdp2" in result.fix


def test_several_nodes_need_a_cluster(project: Project) -> None:
    result = project.checks("grpo", "trainer.nnodes=2")["environment"]
    assert (result.status, "trainer.nnodes=2, but one host is one node" in result.message) == (
        "fail",
        True,
    )


def test_a_logger_without_its_package_is_named_with_the_command(project: Project) -> None:
    result = project.checks("grpo", "trainer.logger=[console,clearml]")["environment"]
    assert (result.status, "not installed: clearml" in result.message) == ("fail", True)
    assert result.fix == "pip install clearml"


@pytest.mark.usefixtures("no_flash", "without_gpu")
def test_without_a_gpu_the_only_fix_is_a_config_for_the_cpu(project: Project) -> None:
    """It can be applied as it is: what vLLM and FlashAttention need would be another way."""
    overrides = ("actor_rollout_ref.rollout.name=vllm", "trainer.n_gpus_per_node=8")
    result = check(project, *overrides)
    assert result.fix == (
        "grubrics.device=cpu trainer.n_gpus_per_node=1 actor_rollout_ref.rollout.name=hf"
    )
    after = check(project, *overrides, *result.fix.split())
    assert "NVIDIA" not in after.message and "vllm" not in after.message


@pytest.mark.usefixtures("without_gpu")
def test_sft_on_a_cpu_has_no_bf16(project: Project) -> None:
    result = project.checks("sft", "grubrics.device=cuda", "training.bf16=true")["environment"]
    assert result.fix is not None
    assert result.fix.startswith("grubrics.device=cpu") and "training.bf16=false" in result.fix


@pytest.mark.row("H22")
@pytest.mark.parametrize("kind", ["grpo", "sft"])
def test_wandb_is_needed_only_by_a_config_that_logs_there(
    project: Project, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(
        "engine.checks.environment.find_spec", lambda name: None if name == "wandb" else name
    )
    key = "trainer.logger" if kind == "grpo" else "logging.report_to"
    without = project.checks(kind, f"{key}=[console]")["environment"]
    assert "not installed" not in without.message
    asked = project.checks(kind, f"{key}=[console,wandb]")["environment"]
    assert (asked.status, "not installed: wandb" in asked.message) == ("fail", True)
    assert asked.fix == "pip install wandb"


@pytest.mark.usefixtures("with_gpu")
@pytest.mark.parametrize(
    ("absent", "extra"), [(("torch",), "train"), (("vllm",), "gpu"), (("torch", "vllm"), "gpu")]
)
def test_the_extra_has_every_missing_package(
    project: Project, monkeypatch: pytest.MonkeyPatch, absent: tuple[str, ...], extra: str
) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name in absent else object())
    result = check(project, "actor_rollout_ref.rollout.name=vllm")
    assert result.fix is not None and f"[{extra}]" in result.fix
