"""Scripts of verl and configs of AFlow become configs, with a row for every key."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.config.load import load_config
from engine.data.contract import FileFacts, write_rows
from engine.translate.import_config import ImportedConfig, plan_import, write_import
from engine.translate.shell_state import Argument
from engine.translate.translation import Row
from engine.translate.verl_script import Override, _override
from tests.engine.translate.scripts import AFLOW, FOR_GPUS, SFT, TINY_GRPO, call, write

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")


def imported(text: str, *arguments: str, name: str = "run.sh", **options: Any) -> ImportedConfig:
    return plan_import(write(Path(), name, text), arguments, **options)


def values(text: str, *arguments: str, **options: Any) -> Mapping[str, Any]:
    return imported(text, *arguments, **options).translation.values


def note_of(config: ImportedConfig, source: str) -> str:
    """Why a key of the source has no counterpart."""
    (row,) = [row for row in config.translation.rows if row.source == source]
    assert row.is_left_out, row
    return row.note


def row_of(config: ImportedConfig, source: str) -> Row:
    (row,) = [row for row in config.translation.rows if row.source == source]
    return row


def test_a_script_becomes_a_config_with_its_values() -> None:
    config = imported(TINY_GRPO)
    write_import(config)
    loaded = load_config("run")
    assert loaded.kind.name == "grpo" and loaded.get("grubrics.device") == "cuda"
    expected = {
        "data.train_files": ["./train.parquet"],
        "data.filter_overlong_prompts": True,
        "actor_rollout_ref.actor.optim.lr": 1e-4,
        "actor_rollout_ref.actor.optim.clip_grad": 0.5,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 8,
        "trainer.logger": ["console"],
        "trainer.project_name": "sums",
        "trainer.experiment_name": "two-steps",
        "trainer.n_gpus_per_node": 8,
    }
    assert {key: loaded.get(key) for key in expected} == expected


def test_every_key_of_a_script_has_a_row_with_its_line() -> None:
    rows = imported(TINY_GRPO).translation.rows
    keys = [row.source for row in rows if row.source and "export" not in row.source]
    assert sorted(keys) == sorted(re.findall(r"(?<=\s)[\w]+\.[\w.]+(?==)", TINY_GRPO))
    assert row_of(imported(TINY_GRPO), "algorithm.adv_estimator").line == 10


def test_without_a_reward_function_verl_scores_by_data_source() -> None:
    chosen = values(call())
    assert chosen["reward.custom_reward_function.path"] == "pkg://engine.train.verl_score"


def test_data_that_was_prepared_for_a_task_is_scored_by_it(tmp_path: Path) -> None:
    data = tmp_path / "train.parquet"
    facts = FileFacts("questions", "train", False, None, 1)
    write_rows(data, [{"data_source": "questions", "extra_info": {}}], facts)
    chosen = values(call(f"data.train_files={data}"))
    assert chosen["reward.custom_reward_function.path"] == "task://questions"
    data.write_bytes(b"torn")
    chosen = values(call(f"data.train_files={data}"))
    assert chosen["reward.custom_reward_function.path"] == "pkg://engine.train.verl_score"


@pytest.mark.parametrize("section", ["custom_reward_function", "reward.custom_reward_function"])
def test_a_reward_function_of_the_script_is_kept(section: str) -> None:
    chosen = values(call(f"{section}.path=score.py {section}.name=score"))
    assert chosen["reward.custom_reward_function.path"] == "score.py"
    assert chosen["reward.custom_reward_function.name"] == "score"


def test_an_overlong_buffer_begins_before_the_longest_response() -> None:
    words = ("reward_model.overlong_buffer.enable=True", "data.max_response_length=77")
    assert values(call(*words))["reward.reward_kwargs.max_resp_len"] == 77


@pytest.mark.parametrize("value", ["", "''", "${WANDB_API_KEY}", "${WANDB_API_KEY:-}"])
def test_a_secret_without_a_value_is_named_and_hides_no_other_word(value: str) -> None:
    config = imported(call(before=f"set -x\nexport WANDB_API_KEY={value}"))
    assert note_of(config, "export WANDB_API_KEY") == "a secret: set WANDB_API_KEY in .env"
    assert "…" not in str([row.source for row in config.translation.rows])


@pytest.mark.parametrize("value", ["REPLACE_THIS", "<your key>", "xxxx", "YOUR_WANDB_KEY"])
def test_a_placeholder_of_a_secret_is_no_secret_elsewhere(value: str) -> None:
    before = f"export WANDB_API_KEY='{value}' ROOT='{value}'\nstop_token_ids=[151643,151645]"
    stop = "+actor_rollout_ref.rollout.engine_kwargs.vllm.stop_token_ids=$stop_token_ids"
    config = imported(call('"data.train_files=$ROOT/a.parquet"', stop, before=before))
    chosen = config.translation.values
    assert chosen["data.train_files"] == f"{value}/a.parquet"
    assert chosen[stop[1:].partition("=")[0]] == [151643, 151645]
    assert note_of(config, "export WANDB_API_KEY") == "a secret: set WANDB_API_KEY in .env"


def test_an_array_keeps_what_every_branch_leaves_alone() -> None:
    before = """
A=(trainer.nnodes=2 actor_rollout_ref.rollout.n=8)
case "$DEVICE" in
  npu) A+=(trainer.n_gpus_per_node=16 actor_rollout_ref.rollout.n=4) ;;
esac"""
    config = imported(call('"${A[@]}"', before=before))
    assert config.translation.values["trainer.nnodes"] == 2
    for key in ("trainer.n_gpus_per_node", "actor_rollout_ref.rollout.n"):
        assert note_of(config, key) == "the case in line 3 decides it"
        assert key not in config.translation.values


INNER = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo trainer.nnodes=$N"


@pytest.mark.parametrize(
    "text",
    [
        f'N=2\nsrun -N 1 bash -c "{INNER}"',
        f"export N=2\ndocker run image bash -lc '{INNER}'",
        f'N=2\nray job submit -- bash -c "cd /w && {INNER}"',
        f"bash -euo pipefail -c 'N=$1; {INNER}' name 2",
        f"N=2\nbash <<EOF\n{INNER}\nEOF",
        f"bash -s 2 <<'EOF'\nN=$1\n{INNER}\nEOF",
        f"sbatch <<'EOF'\nN=2\nsrun {INNER}\nEOF",
        f'N=2\nsbatch --wrap="{INNER}"',
        f"N=2\ncat > job.sh <<EOF\n{INNER}\nEOF\nchmod +x job.sh\nsbatch ./job.sh",
        f"cat <<'EOF' > job.sh\nN=$1\n{INNER}\nEOF\nsrun bash job.sh 2",
        f"N=2\ntee job.sh <<EOF\n{INNER}\nEOF",
        f'N=2\nCMD="{INNER}"\neval "$CMD"',
        f'N=2\nlaunch() {{ {INNER} "$@"; }}\nlaunch data.seed=3',
    ],
)
def test_a_script_inside_of_the_script_is_followed(text: str) -> None:
    assert values(text)["trainer.nnodes"] == 2


def test_variables_that_are_not_exported_are_unknown_in_another_shell() -> None:
    config = imported(f"N=2\nbash -c '{INNER}'")
    assert note_of(config, "trainer.nnodes") == "N is not set in the script"


def test_secrets_are_named_and_not_written() -> None:
    secret = "0123456789abcdef0123456789abcdef01234567"
    before = f"export WANDB_API_KEY={secret}\nMY_TOKEN={secret}"
    words = ("+trainer.wandb_proxy=$MY_TOKEN", f"trainer.project_name={secret}")
    config = imported(f"{call(*words, before=before)}wandb login {secret}")
    assert note_of(config, "export WANDB_API_KEY") == "a secret: set WANDB_API_KEY in .env"
    assert ".env" in note_of(config, "trainer.wandb_proxy")
    assert secret not in config.text and secret not in str(config.translation.rows)


def test_variables_of_workers_reach_them_and_others_are_for_the_env_file() -> None:
    config = imported(call(before="export VLLM_USE_V1=1 HYDRA_FULL_ERROR=1"))
    chosen = config.translation.values
    assert chosen["ray_kwargs.ray_init.runtime_env.env_vars.VLLM_USE_V1"] == "1"
    assert note_of(config, "export HYDRA_FULL_ERROR") == "set it in .env: HYDRA_FULL_ERROR=1"


@pytest.mark.parametrize(
    "start",
    [
        "python3 -m verl.trainer.main_ppo",
        "python -u -m verl.trainer.main_ppo",
        "HYDRA_FULL_ERROR=1 python3 verl/trainer/main_ppo.py",
        "ray job submit --address=http://h:8265 --no-wait -- python3 -m verl.trainer.main_ppo",
        "exec nohup python3 -m verl.trainer.main_ppo --config-name='ppo_trainer.yaml'",
        "cd verl && python3 -m recipe.dapo.main_dapo",
    ],
)
def test_calls_of_the_trainer(start: str) -> None:
    assert values(f"{start} algorithm.adv_estimator=rloo trainer.nnodes=2")["trainer.nnodes"] == 2


ENVIRONMENT = '{"working_dir": ".", "env_vars": {"NCCL_DEBUG": "WARN", "A": "1"}}'


@pytest.mark.parametrize(
    "start",
    [
        "env -u HOME NCCL_DEBUG=WARN A=1 python3",
        "/usr/bin/env NCCL_DEBUG=WARN A=1 nohup python3 -u",
        "srun -N 2 --export=ALL,NCCL_DEBUG=WARN,A=1 python3",
        "srun --export ALL,NCCL_DEBUG=WARN env A=1 python3",
        f"ray job submit --runtime-env-json='{ENVIRONMENT}' -- python3",
        f"ray job submit --runtime-env-json '{ENVIRONMENT}' -- python3",
        "NCCL_DEBUG=WARN env A=1 torchrun --nproc_per_node=8",
    ],
)
def test_variables_of_the_words_before_the_module_are_read(start: str) -> None:
    config = imported(f"{start} -m verl.trainer.main_ppo algorithm.adv_estimator=grpo")
    chosen = config.translation.values
    assert chosen["ray_kwargs.ray_init.runtime_env.env_vars.NCCL_DEBUG"] == "WARN"
    assert note_of(config, "export A") == "set it in .env: A=1"


@pytest.mark.parametrize(
    ("start", "source", "reason"),
    [
        ("srun -N 2 --gres gpu:8 python3 -m", "srun -N 2 --gres gpu:8", "docs/slurm.md"),
        ("ray job submit --address x -- python3 -m", "ray job submit", "docs/cluster.md"),
        (
            "ray job submit --runtime-env=a.yaml -- python3 -m",
            "ray job submit --runtime-env",
            "file",
        ),
        (
            f"ray job submit --runtime-env-json='{ENVIRONMENT}' -- python3 -m",
            "ray job submit --runtime-env-json",
            "working_dir",
        ),
        (
            "ray job submit --runtime-env-json='[' -- python3 -m",
            "ray job submit --runtime-env-json",
            "JSON",
        ),
        (
            "accelerate launch --mixed_precision bf16 -m",
            "accelerate launch --mixed_precision bf16",
            "own processes",
        ),
        ("torchrun --standalone -m", "torchrun --standalone", "own processes"),
        ("timeout 3600 python3 -m", "timeout 3600", "a program before the trainer"),
        ("env -i A=1 python3 -m", "env -i", "your shell"),
    ],
)
def test_other_words_before_the_module_have_a_reason(start: str, source: str, reason: str) -> None:
    config = imported(f"{start} verl.trainer.main_ppo algorithm.adv_estimator=grpo")
    assert reason in note_of(config, source)


SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    ("start", "word"),
    [
        (f"env MY_TOKEN={SECRET} python3", f"trainer.project_name={SECRET}"),
        (f"srun --export=ALL,MY_TOKEN={SECRET} python3", f"trainer.project_name={SECRET}"),
        (
            f'ray job submit --runtime-env-json=\'{{"env_vars": {{"MY_TOKEN": "{SECRET}"}}}}\'',
            f"trainer.project_name={SECRET}",
        ),
        (f"srun --token {SECRET} python3", "trainer.nnodes=2"),
    ],
)
def test_a_secret_before_the_module_is_in_no_row(start: str, word: str) -> None:
    config = imported(f"{start} -m verl.trainer.main_ppo algorithm.adv_estimator=grpo {word}")
    assert SECRET not in config.text and SECRET not in str(config.translation.rows)


@pytest.mark.parametrize(
    "start", ["accelerate launch --num_processes 4", "torchrun --nproc-per-node 4"]
)
def test_sft_has_the_number_of_processes(start: str) -> None:
    text = f"{start} -m verl.trainer.fsdp_sft_trainer data.train_files=a model.partial_pretrain=b"
    assert values(text)["training.n_gpus"] == 4


@pytest.mark.parametrize("word", ["source", "."])
def test_a_file_that_sets_variables_has_a_row(word: str) -> None:
    config = imported(call("trainer.nnodes=$N", before=f"{word} env.sh"))
    assert "variables that it sets are unknown" in note_of(config, f"{word} env.sh")
    assert "env.sh, which line 1 reads, may set it" in note_of(config, "trainer.nnodes")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("+trainer.nnodes=2", 2),
        ("++trainer.nnodes=2", 2),
        ("trainer.nnodes=2 trainer.nnodes=3", 3),
        ("'trainer.nnodes=4'", 4),
    ],
)
def test_forms_of_a_value(word: str, expected: int) -> None:
    assert values(call(word))["trainer.nnodes"] == expected


@pytest.mark.parametrize(
    ("word", "source", "reason"),
    [
        ("+trainer.colour=red", "trainer.colour", "no such key; the nearest is trainer."),
        ("~trainer.nnodes", "~trainer.nnodes", "cannot be removed"),
        ("critic.optim.lr=1e-5", "critic.optim.lr", "no critic"),
        ("reward_model.enable=True", "reward_model.enable", "reward models are not used"),
        ("reward_model.reward_manager=prime", "reward_model.reward_manager", "naive, dapo"),
        ("trainer.nnodes=many", "trainer.nnodes", "must be"),
        ("trainer.nnodes=$(nproc)", "trainer.nnodes", "$(nproc) needs a shell"),
        ("trainer.nnodes=$N", "trainer.nnodes", "N is not set in the script"),
        ("trainer.device=npu", "trainer.device", "npu is not supported"),
        ("model_engine=megatron", "model_engine", "a part of verl's config files"),
        ("actor@a.b=c", "actor@a.b", "a part of verl's config files"),
        ("--config-name=mine", "--config-name", "whose values are not read"),
        ("+trainer.foo='${now:%Y}'", "trainer.foo", "no such key"),
        ("trainer.project_name='${now:%Y}'", "trainer.project_name", "only Hydra resolves ${now:"),
        ("# c\n trainer.nnodes=2", "trainer.nnodes", "has ended before this line"),
    ],
)
def test_a_key_without_counterpart_has_a_reason(word: str, source: str, reason: str) -> None:
    assert reason in note_of(imported(call(word)), source)


def test_a_key_that_is_set_again_counts_once() -> None:
    rows = imported(call("trainer.nnodes=2 \\\n trainer.nnodes=3")).translation.rows
    notes = [row.note for row in rows if row.source == "trainer.nnodes"]
    assert notes == ["it is set again in line 3", ""]


def test_a_name_that_only_a_shell_knows_becomes_that_of_the_config() -> None:
    assert values(call("trainer.experiment_name=$(date)"))["trainer.experiment_name"] == "run"


def test_a_cpu_decides_what_it_implies() -> None:
    config = imported(TINY_GRPO, device="cpu")
    write_import(config)
    loaded = load_config("run")
    assert loaded.get("grubrics.device") == "cpu"
    assert not loaded.is_chosen("actor_rollout_ref.rollout.name")
    assert not loaded.is_chosen("trainer.n_gpus_per_node")
    assert "rollout.name=hf" in note_of(config, "actor_rollout_ref.rollout.name")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "source",
    [
        "actor_rollout_ref.rollout.gpu_memory_utilization",
        "actor_rollout_ref.rollout.enforce_eager",
        "actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space",
        "actor_rollout_ref.rollout.free_cache_engine",
        "actor_rollout_ref.rollout.data_parallel_size",
        "actor_rollout_ref.actor.ulysses_sequence_parallel_size",
        "actor_rollout_ref.actor.fsdp_config.fsdp_size",
        "actor_rollout_ref.actor.fsdp_config.model_dtype",
        "ray_kwargs.ray_init.runtime_env.env_vars.VLLM_LOGGING_LEVEL",
        "export VLLM_USE_V1",
        "export NCCL_DEBUG",
    ],
)
def test_what_only_a_gpu_reads_is_left_out_for_a_cpu(source: str) -> None:
    """Also where the value is the default, as 0.5 is for gpu_memory_utilization."""
    assert "for a CPU" in note_of(imported(FOR_GPUS, device="cpu"), source)
    assert row_of(imported(FOR_GPUS), source).is_translated


def test_a_cpu_keeps_what_it_reads() -> None:
    chosen = imported(FOR_GPUS, device="cpu").translation.values
    assert chosen["actor_rollout_ref.rollout.max_num_seqs"] == 256
    assert chosen["ray_kwargs.ray_init.runtime_env.env_vars.TOKENIZERS_PARALLELISM"] == "true"


def test_a_variable_that_a_cpu_does_not_read_is_not_proposed_for_the_env_file() -> None:
    config = imported(f"export NCCL_DEBUG=WARN\n{SFT}", "8", "out", device="cpu")
    assert note_of(config, "export NCCL_DEBUG") == "for a CPU: only programs on a GPU read it"


def test_sft_keeps_the_batch_and_the_defaults_of_its_trainer() -> None:
    write_import(imported(SFT, "8", "out", "optim.betas=[0.9,0.98]"))
    config = load_config("run")
    expected = {
        "training.n_gpus": 8,
        "training.per_device_train_batch_size": 4,
        "training.gradient_accumulation_steps": 2,
        "training.output_dir": "out",
        "training.betas": [0.9, 0.98],
        "training.learning_rate": 1e-5,
        "training.num_train_epochs": 4,
        "logging.report_to": ["console", "wandb"],
    }
    assert {key: config.get(key) for key in expected} == expected


def test_sft_of_a_newer_trainer_has_its_defaults() -> None:
    text = SFT.replace("fsdp_sft_trainer", "sft_trainer").replace("partial_pretrain", "path")
    chosen = values(text, "1", "out")
    assert chosen["training.learning_rate"] == 1e-3
    assert chosen["training.lr_scheduler_type"] == "constant"


def test_sft_gets_no_default_that_would_have_no_effect() -> None:
    chosen = values(SFT, "1", "out", "trainer.total_training_steps=3")
    assert not {"training.num_train_epochs", "lora.alpha"} & chosen.keys()


def test_sft_on_a_cpu_keeps_the_whole_batch() -> None:
    chosen = values(SFT, "8", "out", device="cpu")
    assert chosen["training.gradient_accumulation_steps"] == 16
    assert "training.n_gpus" not in chosen and chosen["training.bf16"] is False


def test_sft_names_columns_that_are_to_be_renamed() -> None:
    config = imported(SFT, "1", "out", "data.prompt_key=question", "engine=fsdp")
    assert note_of(config, "data.prompt_key") == "rename the column question to prompt"
    assert "part of verl's config files" in note_of(config, "engine")


@pytest.mark.row("A03")
def test_a_config_of_aflow_becomes_a_config() -> None:
    config = imported(AFLOW, name="training.yaml")
    write_import(config)
    loaded = load_config("training")
    expected = {
        "actor_rollout_ref.model.target_modules": ["q_proj", "k_proj"],
        "actor_rollout_ref.actor.ppo_mini_batch_size": 2,
        "grubrics.temperature_schedule.steps": 150,
        "data.train_files": "data/train_mixed/train.parquet",
        "reward.custom_reward_function.path": "task://workflows",
        "trainer.test_freq": -1,
        "trainer.experiment_name": "first",
    }
    assert {key: loaded.get(key) for key in expected} == expected
    assert "not read below checkpointing" in row_of(config, "checkpointing.eval_every").note
    assert row_of(config, "lora_dropout").line == 6


def test_numbers_of_aflow_are_numbers_however_they_are_written() -> None:
    for text in ("1e-4", "1E-4", ".1e-3", "0.0001"):
        config = imported(AFLOW.replace("2.0e-5", text), name="training.yaml")
        assert config.translation.values["actor_rollout_ref.actor.optim.lr"] == 1e-4


def test_a_config_of_aflow_has_one_gpu_and_weights_of_16_bits() -> None:
    chosen = imported(AFLOW, name="training.yaml").translation.values
    assert chosen["trainer.n_gpus_per_node"] == 1
    assert chosen["actor_rollout_ref.rollout.tensor_model_parallel_size"] == 1
    assert chosen["actor_rollout_ref.actor.fsdp_config.model_dtype"] == "bfloat16"
    whole = imported(
        AFLOW.replace("use_lora: true", "use_lora: false"), name="training.yaml"
    ).translation.values
    assert "actor_rollout_ref.actor.fsdp_config.model_dtype" not in whole


def test_an_unknown_key_of_aflow_is_named_with_the_nearest() -> None:
    config = imported(f"{AFLOW}learning_rat: 1\n", name="training.yaml")
    assert note_of(config, "learning_rat").endswith("did you mean 'learning_rate'?")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.sh", "echo hi", "a.sh starts no trainer of verl"),
        ("a.sh", f"x=1\nssh a '{call()}'", "a.sh: line 2 starts the trainer in a text that"),
        ("a.sh", "set -e\nsrun bash b/run.sh", "line 2 runs b/run.sh: import that script"),
        ("a.sh", "python3 -m verl.trainer.main_pop", "did you mean 'main_ppo'?"),
        ("a.sh", "python3 -m verl.trainer.main_ppo 'x", "a.sh: line 1: the quote ' has no end"),
        ("a.sh", call() + call(), "starts trainers in lines 2, 4; choose it with --line"),
        ("a.sh", "python3 -m verl.trainer.main_ppo", "=gae, verl's default, trains with PPO"),
        ("a.yaml", "a: 1", "a.yaml is no config of AFlow: base_model and train_dataset missing"),
        ("a.yaml", "grubrics: {kind: grpo}", "a.yaml is a config already"),
        ("a.yaml", "a: [", "a.yaml, line 1: invalid YAML"),
        ("a.yaml", AFLOW.replace("max_steps: 500", "save_every: x"), "save_every has a value of"),
        (
            "a.yaml",
            AFLOW.replace("batch_size: 4", "batch_size: four"),
            "line 9: rollout_batch_size='four' must be an integer",
        ),
        ("a.yaml", AFLOW.replace("0.2\n", "wide\n"), "clip_range='wide' must be a number"),
    ],
)
def test_what_cannot_be_translated_is_refused(name: str, text: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        imported(text, name=name)
    assert problem in str(raised.value) and "\n" not in str(raised.value)
    assert not Path("configs").exists()


def test_one_of_several_trainers_is_chosen_by_its_line() -> None:
    assert values(call() + call("trainer.nnodes=2"), line=4)["trainer.nnodes"] == 2


def test_an_existing_config_is_replaced_only_by_force() -> None:
    write_import(imported(call()))
    with pytest.raises(UsageError, match=r"configs/run\.yaml exists"):
        imported(call())
    assert imported(call(), force=True).path == Path("configs/run.yaml")


TEXTS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)
SCALARS = st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.none())


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return {None: "null", True: "True", False: "False"}.get(value, str(value))


@given(st.lists(st.tuples(TEXTS, st.one_of(SCALARS, st.lists(SCALARS, max_size=3)))))
def test_any_keys_and_values_are_read_back(pairs: Sequence[tuple[str, Any]]) -> None:
    words = [f"+data.{key}={_written(value)}" for key, value in pairs]
    arguments = [Argument(1, word) for word in shlex.split(shlex.join(words))]
    overrides = [Override(1, f"data.{key}", value) for key, value in pairs]
    assert [_override(argument) for argument in arguments] == overrides
