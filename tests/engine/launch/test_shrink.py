"""A config made small stays valid, keeps what decides, and says why each value moved."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.checks.preflight import run_checks
from engine.config.compose import verl_config
from engine.config.load import Config, load_config
from engine.launch.shrink import Size, shrink_config
from tests.engine.checks.project import Project, make_project, write_model
from tests.paths import CONFIGS

pytestmark = pytest.mark.long

TINY = {
    "model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16,
    "num_attention_heads": 2, "vocab_size": 100, "max_position_embeddings": 1024,
}  # fmt: skip
SIZE = Size(steps=5, batch=2, folder="checkpoints/small", name="small")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a tiny world's model and the production configs, on a machine without GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("engine.launch.shrink.gpus", list)
    made = make_project(tmp_path)
    for path in CONFIGS.glob("*.yaml"):
        shutil.copy(path, tmp_path / "configs")
    model = write_model(tmp_path / "data/tiny/model")
    (model / "config.json").write_text(json.dumps(TINY))
    return made


def small(name: str, *overrides: str) -> Config:
    return shrink_config(load_config(name, overrides, {}), SIZE, {})[0]


@pytest.mark.parametrize("name", ["verl_grpo", "verl_grpo_debug", "grpo_tiny"])
def test_every_grpo_config_passes_the_relations_when_small(project: Project, name: str) -> None:
    data = ("data.train_files=data/train.parquet", "data.val_files=data/val.parquet")
    result = small(name, *data, "judge.provider=offline", "reward_config.use_contrastive=true")
    checks = {check.id: check for check in run_checks(result, env={})}
    for relation in ("config", "batch", "limits", "steps"):
        assert checks[relation].status == "ok", checks[relation]


def test_the_production_config_becomes_a_cpu_run_of_the_tiny_model(project: Project) -> None:
    result = small("verl_grpo")
    assert result.get("grubrics.device") == "cpu"
    assert result.get("actor_rollout_ref.model.path") == "data/tiny/model"
    assert result.get("actor_rollout_ref.rollout.name") == "hf"
    trained = verl_config(result, Path("attempt_1"))
    assert trained["actor_rollout_ref"]["actor"]["strategy"] == "fsdp2"
    assert result.get("data.max_prompt_length") + result.get("data.max_response_length") <= 1024


@pytest.mark.parametrize(
    "mix", ["grubrics.shares=[1,1]", "grubrics.curriculum=0.8:0.2:0.9 0.2:0.8:0.1"]
)
def test_selected_rows_are_one_file_that_is_not_mixed(project: Project, mix: str) -> None:
    config = load_config("grpo_tiny", (mix, "data.train_files=[a.parquet,b.parquet]"), {})
    result, _ = shrink_config(config, replace(SIZE, rows="rows.parquet"), {})
    assert result.get("data.train_files") == "rows.parquet"
    assert result.get(mix.partition("=")[0]) is None


def test_reward_judge_seeds_and_data_stay(project: Project) -> None:
    before, after = load_config("verl_grpo", (), {}), small("verl_grpo")
    for key, value in before.values.items():
        if key.startswith(("reward_config.", "judge.", "algorithm.")) or key.endswith("seed"):
            assert after.get(key) == value, key
    assert after.get("data.train_files") == before.get("data.train_files")


@pytest.mark.parametrize("name", ["verl_grpo", "sft_healthbench"])
def test_a_small_run_has_no_guard_and_the_changes_show_it(project: Project, name: str) -> None:
    guard = ("guard.stop_on=[critical]", "guard.command=[notify]", "guard.webhook_variable=WEBHOOK")
    data = ("data.train_file=data/sft/train.jsonl",) if name == "sft_healthbench" else ()
    result, changes = shrink_config(load_config(name, (*guard, *data), {}), SIZE, {})
    cleared = {change.key: change.after for change in changes if change.key.startswith("guard.")}
    assert cleared == {"guard.stop_on": [], "guard.command": [], "guard.webhook_variable": None}
    assert result.get("guard.stop_on") == []


def test_a_small_model_of_the_config_is_preserved(project: Project) -> None:
    result = small("grpo_tiny", "actor_rollout_ref.model.path=models/base")
    assert result.get("actor_rollout_ref.model.path") == "models/base"


def test_a_small_run_has_its_own_checkpoint_folder_and_resumes_nothing(project: Project) -> None:
    result = small("verl_grpo")
    assert result.get("trainer.default_local_dir") == "checkpoints/small"
    assert result.get("trainer.resume_mode") == "disable"


def test_sft_is_shrunk_too(project: Project) -> None:
    result = small("sft_healthbench", "data.train_file=data/sft/train.jsonl")
    assert result.get("training.max_steps") == 5
    assert result.get("training.output_dir") == "checkpoints/small"
    assert result.get("data.max_seq_length") <= 1024
    assert result.get("grubrics.device") == "cpu"


def test_every_change_has_a_reason_and_a_value_before(project: Project) -> None:
    config = load_config("verl_grpo", (), {})
    for change in shrink_config(config, SIZE, {})[1]:
        assert change.why and change.before == config.get(change.key) != change.after


def test_a_value_implied_by_the_cpu_is_not_a_change(project: Project) -> None:
    changed = {
        change.key for change in shrink_config(load_config("grpo_tiny", (), {}), SIZE, {})[1]
    }
    assert not changed & {"actor_rollout_ref.rollout.name", "trainer.n_gpus_per_node"}


def test_without_a_small_model_the_error_says_how_to_get_one(project: Project) -> None:
    shutil.rmtree("data/tiny")
    with pytest.raises(UsageError, match=r"-m engine\.data\.tiny_world"):
        small("verl_grpo")
