"""Configs: layers, origins, and one clear line for what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.config.load import Config, load_config
from tests.paths import CONFIGS

pytestmark = pytest.mark.long

MINIMAL = """
grubrics: {kind: grpo, device: cpu}
data: {train_batch_size: 24}
trainer:
  project_name: grubrics-transfer
  experiment_name: try
  default_local_dir: checkpoints/${trainer.project_name}/${trainer.experiment_name}
actor_rollout_ref: {actor: {optim: {lr: 1e-3}}}
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "try.yaml"
    path.write_text(MINIMAL)
    return str(path)


def load(config: str, *overrides: str, **env: str) -> Config:
    return load_config(config, overrides, env)


def test_references_are_filled_in(config: str) -> None:
    loaded = load(config, "trainer.experiment_name=other")
    assert loaded.get("trainer.default_local_dir") == "checkpoints/grubrics-transfer/other"


@pytest.mark.parametrize("name", ["grpo_tiny", "verl_grpo", "verl_grpo_debug"])
def test_the_configs_of_the_project_say_whether_a_model_thinks(name: str) -> None:
    config = load(str(CONFIGS / f"{name}.yaml"))
    assert config.get("data.apply_chat_template_kwargs.enable_thinking") is False


def test_every_value_knows_where_it_came_from(config: str) -> None:
    loaded = load(config, "data.seed=3", REWARD_LAMBDA_INFO="0.0")
    assert loaded.origins["data.train_batch_size"] == "file"
    assert loaded.origins["data.seed"] == "cli"
    assert loaded.origins["reward_config.lambda_info"] == "environment"
    assert loaded.origins["trainer.total_epochs"] == "default"


def test_the_environment_wins_over_the_command_line(config: str) -> None:
    loaded = load(config, "reward_config.lambda_info=0.2", REWARD_LAMBDA_INFO="0.0")
    assert loaded.get("reward_config.lambda_info") == 0.0


def test_changes_show_the_value_before(config: str) -> None:
    (change,) = load(config, "data.train_batch_size=4").changes
    assert (change.key, change.before, change.after) == ("data.train_batch_size", 24, 4)


def test_scientific_notation_is_a_number(config: str) -> None:
    assert load(config).get("actor_rollout_ref.actor.optim.lr") == 0.001


def test_the_seeds_name_of_the_worker_count_is_understood(config: str) -> None:
    assert load(config, "data.num_workers=1").get("data.dataloader_num_workers") == 1


def test_keys_that_verl_only_passes_on_are_accepted(config: str) -> None:
    loaded = load(config, "actor_rollout_ref.model.override_config.attn_implementation=sdpa")
    assert loaded.section("actor_rollout_ref")["model"]["override_config"] == {
        "attn_implementation": "sdpa"
    }


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("data.train_batch_siz=4", "did you mean 'data.train_batch_size'"),
        ("judge.modle=x", "did you mean 'judge.model'"),
        ("trainer.total_epochs=abc", "trainer.total_epochs='abc' must be an integer"),
        ("data=3", "data is a section"),
        ("judge.provider=azur", "judge.provider='azur'"),
        ("judge.timeout_s=-1", "judge.timeout_s=-1"),
        ("just-a-word", "expected key=value"),
        ("~trainer.logger", "keys cannot be removed; set trainer.logger=null"),
        ("~trainer.logger=x", "keys cannot be removed; set trainer.logger=null"),
        ("data.seed=[1,", "not valid YAML"),
        ("actor_rollout_ref.rollout.swap_space=4", "set actor_rollout_ref.rollout.engine_kwargs"),
        ("reward_model.micro_batch_size_per_gpu=4", "does not read; remove it"),
        ("trainer.total_training_steps=abc", "must be an integer of at least 1, or null"),
        ("trainer.max_actor_ckpt_to_keep=-3", "must be an integer of at least 1, or null"),
        ("data.val_batch_size=-2", "must be an integer of at least 1, or null"),
        ("actor_rollout_ref.rollout.max_model_len=long", "must be an integer of at least 1"),
        ("actor_rollout_ref.actor.loss_scale_factor=much", "must be a number or null"),
        ("trainer.rollout_data_dir=[a]", "must be a path or null"),
        ("data.seed=1.5", "must be an integer or null"),
        ("data.train_files=null", "must be a file or a list of files"),
        ("data.train_files=[]", "must be at least one file; grubrics-tui prepare writes it"),
        ("grubrics.kind=sft", "grubrics.kind=grpo cannot be overridden"),
        (
            "judge.model=null",
            "judge.model=null: Input should be a valid string; leave it out for the",
        ),
        ("judge.timeout_s=.inf", "judge.timeout_s=inf"),
        ("supervision.interrupt_patience_s=.inf", "supervision.interrupt_patience_s=inf"),
    ],
)
def test_a_bad_override_is_one_line_that_names_it(
    config: str, override: str, complaint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(config, override)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["train.sh", "train.py", "job.sbatch"])
def test_a_script_is_answered_with_the_way_to_launch_what_it_runs(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_text("python -m verl.trainer.main_ppo \\\n    data.train_batch_size=4\n")
    with pytest.raises(UsageError, match="is a program, not a config") as caught:
        load(str(path))
    use = "run -- python" if name.endswith(".py") else "import"
    assert f"grubrics-tui {use} {tmp_path / name}" in str(caught.value)
    assert "grubrics-tui watch" in str(caught.value)


def test_a_yaml_file_of_another_program_is_called_no_config(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("a: 1\n")
    with pytest.raises(UsageError, match=r"not a config: grubrics\.kind is missing"):
        load(str(path))


@pytest.mark.parametrize("value", ["[warnin]", "[1]", "[error, warnin]"])
def test_a_value_that_a_section_refuses_is_blamed_on_who_gave_it(config: str, value: str) -> None:
    with pytest.raises(UsageError, match=r"^CLI override: guard\.stop_on") as caught:
        load(config, f"guard.stop_on={value}")
    assert "\n" not in str(caught.value)


def test_a_value_of_the_file_that_a_section_refuses_is_blamed_on_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"{MINIMAL}\nguard: {{stop_on: [warnin]}}\n")
    with pytest.raises(UsageError, match=r"bad\.yaml: guard\.stop_on=\['warnin'\]"):
        load(str(path))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("- a\n- b\n", "not a mapping"),
        ("a: [1\n", "invalid YAML"),
        ("grubrics: {kind: rl}\n", "grpo, sft"),
        ("grubrics: {kind: sft}\n", "model.path is missing"),
        ("grubrics: {kind: grpo}\ntrainer: {default_local_dir: '${nope}'}\n", "nope"),
        ("\x00\x01", "invalid YAML"),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(str(path))
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_config_names_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "grpo_tiny.yaml").write_text(MINIMAL)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="did you mean 'grpo_tiny'"):
        load("grpo_tinny")
    assert load("grpo_tiny").name == "grpo_tiny"


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("mine", "did you mean 'mine.yaml'"),
        ("mine.yml", "did you mean 'mine.yaml'"),
        ("sub/mime.yaml", "did you mean 'sub/mine.yaml'"),
        ("sft_unheard_of", "known: "),
        ("empty/sft.yaml", "there is none (searched empty/)"),
        ("gone/sft.yaml", "there is none (searched gone/)"),
        ("configs/grpo_tiny.yaml", "did you mean 'grpo_tiny', without folder and ending?"),
        ("sub/grpo_tiny.yaml", "did you mean 'grpo_tiny', without folder and ending?"),
    ],
)
def test_a_missing_config_outside_of_configs_names_the_files_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, answer: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("sub", "empty"):
        Path(folder).mkdir()
    for name in ("mine.yaml", "sub/mine.yaml"):
        Path(name).write_text(MINIMAL)
    Path("sft_tiny_presets.yaml").write_text("presets: {}")
    with pytest.raises(UsageError, match=re.escape(answer)):
        load(given)


@pytest.mark.parametrize(
    "override",
    [
        "judge.base_url=http://user:hunter2@host/v1",
        "judge.base_url=http://user:hun@ter2@host/v1",
        "judge.base_url=http://host/v1?subscription-key=hunter2",
        "judge.base_url=http://host/v1#access_token=hunter2",
        "judge.base_url=http://host/v1?code=hunter2",
        "judge.base_url=http://host/v1;token=hunter2",
        "judge.base_url=host/v1?api_key=hunter2",
        "judge.base_url=user:hunter2@host/v1",
        "judge.base_url=//user:hunter2@host/v1",
        "trainer.logger=[console, 'http://user:hunter2@host']",
        "ray_kwargs.ray_init.hook=https://hooks.slack.com/services/T0/B0/hunter2",
        "ray_kwargs.ray_init.webhook_url=https://chat.example.org/hooks/hunter2",
        "ray_kwargs.ray_init.runtime_env.env_vars.MY_API_KEY=hunter2",
        "ray_kwargs.ray_init.runtime_env.env_vars.HF_TOKEN=hunter2",
        "ray_kwargs.ray_init.runtime_env.env_vars.DB_PASSWORD=hunter2",
    ],
)
def test_a_secret_in_an_override_is_refused_and_not_repeated(config: str, override: str) -> None:
    with pytest.raises(UsageError, match="set it in the environment instead") as caught:
        load(config, override)
    assert "ter2" not in str(caught.value)


@pytest.mark.parametrize(
    "variable",
    [
        "GITHUB_TOKEN=sesame",
        "HUGGING_FACE_HUB_TOKEN=sesame",
        "NOTE=sk-proj-sesame7890123456789012",
    ],
)
def test_a_secret_among_the_variables_of_ray_is_refused(config: str, variable: str) -> None:
    override = f"+ray_kwargs.ray_init.runtime_env.env_vars.{variable}"
    with pytest.raises(UsageError, match="looks like a secret") as caught:
        load_config(config, [override])
    assert "sesame" not in str(caught.value)


def test_a_secret_inside_a_mapping_is_refused(config: str) -> None:
    override = "+ray_kwargs.ray_init.runtime_env.env_vars={OPENAI_API_KEY: sesame}"
    with pytest.raises(UsageError, match="looks like a secret"):
        load_config(config, [override])


@pytest.mark.parametrize("text", ["https://host/v1?version=2", "a step: 3@2", "why? a=b"])
def test_what_only_looks_like_an_address_with_a_login_is_no_secret(config: str, text: str) -> None:
    assert load(config, f"grubrics.description='{text}'").get("grubrics.description") == text


def test_an_ordinary_endpoint_is_no_secret(config: str) -> None:
    loaded = load(config, "judge.base_url=http://127.0.0.1:8000/v1", "judge.max_tokens=5")
    assert loaded.get("judge.base_url") == "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("trainer: {save_freq: 3}\ntrainer.save_freq: 5\n", "trainer.save_freq is set twice"),
        ('data: {train_batch_size: "???"}\n', "data.train_batch_size is missing"),
        ("data: " + "[" * 2000 + "]" * 2000, "nested too deeply"),
        ("# " + "x" * (1 << 20), "larger than the 1024 KiB"),
    ],
    ids=["set twice", "left open", "deep", "large"],
)
def test_a_file_that_no_run_can_be_made_of_is_refused_at_once(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(f"grubrics: {{kind: grpo}}\n{text}")
    with pytest.raises(UsageError, match=says):
        load_config(str(path), (), {})
