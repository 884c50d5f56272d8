"""Translate the keys of ``verl.trainer.main_ppo``; most keep their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.text import format_command, format_config_value
from engine.config.compose import OVERLONG_BUFFER, VERL_MANAGERS, on_cpu
from engine.config.keys import is_open, moved_to, verl_defaults, verl_version
from engine.config.load import Config
from engine.data.contract import read_facts
from engine.reward.own.function import KEY as OWN_REWARD
from engine.reward.own.function import PACKAGE, TASK
from engine.run.kinds import GRPO
from engine.tasks.registry import tasks
from engine.translate.translation import Row, checked, left_out, no_such_key, without_keys
from engine.translate.verl_script import GROUP, Override, TrainerCall, export_rows

_ESTIMATOR = "algorithm.adv_estimator"
_NAME = "trainer.experiment_name"
_WORKERS = re.compile(
    r"(?:VLLM|SGL|SGLANG|NCCL|GLOO|TORCH|PYTORCH|TRITON|TOKENIZERS|CUDA_DEVICE|OMP|FLASH\w*)_"
)
"""Names of variables that processes of Ray read, not the one that starts them."""
_ONLY_GPU = re.compile(
    r".+\.(?:\w*offload\w*|use_fused_kernels|use_liger|use_shm|fsdp_size|model_dtype"
    r"|\w+_parallel_size|free_cache_engine)|trainer\.nnodes"
)
"""What a CPU has no use for: memory of GPUs, parts of a model on several, fused kernels, bf16."""
_LONGEST = "reward.reward_kwargs.max_resp_len"
_REWARD = {f"{OWN_REWARD}.path": f"{PACKAGE}engine.train.verl_score"}
"""verl's own function, which chooses a score by ``data_source``."""


def translate_grpo(path: Path, call: TrainerCall) -> list[Row]:
    """Rows for every word of a call of ``main_ppo``.

    UsageError for an estimator that needs a critic: such a run has no counterpart.
    """
    rows = [_translate(override) for override in call.overrides]
    _require_grpo(path, rows)
    rows += [*call.rows, *map(_checked, export_rows(call.exports, _WORKERS))]
    rows += _reward(rows)
    # Checkpoints are stored under the name of the run, which every run has.
    if any(row.source == _NAME and row.is_left_out for row in rows):
        rows.append(Row("", None, {_NAME: path.stem}, "the script's own name is not known"))
    return rows


def _require_grpo(path: Path, rows: Iterable[Row]) -> None:
    chosen = {key: value for row in rows for key, value in row.values.items()}
    estimator = chosen.get(_ESTIMATOR, verl_defaults()[_ESTIMATOR])
    if estimator == "gae":
        command = format_command(["grubrics-tui", "import", str(path), f"{_ESTIMATOR}=grpo"])
        how = "" if _ESTIMATOR in chosen else ", verl's default,"
        raise UsageError(
            f"{path}: {_ESTIMATOR}=gae{how} trains with PPO and a critic, which has no "
            f"counterpart. If the script passes on its arguments: {command}"
        )


def _translate(override: Override) -> Row:
    source, line, value = override.key, override.line, override.value
    key = moved_to(source) or source
    known = verl_defaults()
    if "." not in key:
        return left_out(source, line, GROUP)
    if key.startswith("critic."):
        return left_out(source, line, "there is no critic")
    if key == "trainer.device" and value in ("cpu", "cuda"):
        return Row(source, line, {"grubrics.device": value})
    if (reason := _unsupported(key, value)) is not None:
        return left_out(source, line, reason)
    if key not in known and not is_open(key, known):
        return left_out(source, line, no_such_key(source, verl_version(), known))
    return _checked(Row(source, line, {key: value}))


def _checked(row: Row) -> Row:
    return checked(row, GRPO)


def _unsupported(key: str, value: Any) -> str | None:
    """Why this project does not train with a value that verl accepts; None where it does."""
    if key == "trainer.device":
        return f"{value} is not supported: cuda or cpu"
    if key.startswith("reward.reward_model."):
        is_off = value in (False, None) and key.endswith(".enable")
        return None if is_off else "reward models are not used; a reward function can call a server"
    if key == "reward.reward_manager.name" and value not in VERL_MANAGERS:
        return f"{value} cannot record its rewards; known: {', '.join(VERL_MANAGERS)}"
    if key.startswith("reward.reward_manager.") and not key.endswith(".name"):
        return "a reward manager of your own cannot record its rewards"
    if key == "trainer.use_v1" and value is False:
        return "only the V1 trainer is supported"
    if key in ("trainer.rollout_data_dir", "trainer.validation_data_dir"):
        return "every run keeps its rollouts in its own directory"
    return None


def _reward(rows: Iterable[Row]) -> Iterator[Row]:
    """What the rewards need besides: verl's score by ``data_source`` without a function."""
    chosen = {key: value for row in rows for key, value in row.values.items()}
    if chosen.get(f"{OVERLONG_BUFFER}.enable") and _LONGEST not in chosen:
        longest = {**verl_defaults(), **chosen}
        values = {_LONGEST: longest["data.max_response_length"]}
        yield Row("", None, values, "the longest response, as in verl's recipe")
    if chosen.get(f"{OWN_REWARD}.path"):
        return
    if (task := _task_of(chosen.get("data.train_files"))) is not None:
        path = {f"{OWN_REWARD}.path": f"{TASK}{task}"}
        yield Row("", None, path, f"no function in the script: the data is of the task {task}")
    else:
        yield Row("", None, _REWARD, "no function in the script: verl's score by data_source")


def _task_of(data: Any) -> str | None:
    """The task that the first file of the data was prepared for; None if it has none, or is not
    there. verl does not know its ``data_source``."""
    first = data[0] if isinstance(data, list) and data else data
    if not isinstance(first, str) or not Path(first).is_file():
        return None
    try:
        facts = read_facts(Path(first))
    except UsageError:
        return None
    return facts.preset if facts is not None and facts.preset in tasks() else None


def for_cpu(rows: Iterable[Row], config: Config) -> list[Row]:
    """The rows for a machine without a GPU: what the CPU implies is left to it."""
    implied = {**on_cpu(config), "trainer.n_gpus_per_node": 1}
    rows = [row for row in rows if "grubrics.device" not in row.values]
    keys = [key for row in rows for key in row.values]
    reasons = {
        key: "not for a CPU"
        if implied.get(key) is None
        else f"for a CPU: {key}={format_config_value(implied[key])}"
        for key in keys
        if key in implied or _ONLY_GPU.fullmatch(key)
    }
    device = Row("", None, {"grubrics.device": "cpu"}, "--device cpu")
    return [*without_keys(rows, reasons), device]
