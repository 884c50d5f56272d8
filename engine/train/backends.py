"""Load the target of an evaluation, and what generates its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from engine.base.errors import UsageError
from engine.train.final_checkpoint import build, shard_folder
from engine.train.generation import Generated, Request, generate
from engine.train.hf_server import stop_tokens


class Backend(Protocol):
    """A loaded target that generates. ``batch``: how many answers between two writes."""

    @property
    def name(self) -> str: ...
    @property
    def tokenizer(self) -> Any: ...
    @property
    def stops(self) -> list[int]: ...
    @property
    def batch(self) -> int: ...
    @property
    def model_type(self) -> str:
        """``model_type`` of the model's config.json."""

    def generate(self, requests: Sequence[Request]) -> list[Generated]: ...


@dataclass(frozen=True)
class HfBackend:
    """A Hugging Face model in this process."""

    model: Any
    tokenizer: Any
    batch: int
    name: str = "transformers"

    @property
    def model_type(self) -> str:
        return str(self.model.config.model_type)

    @property
    def stops(self) -> list[int]:
        return stop_tokens(self.tokenizer, self.model.generation_config)

    def generate(self, requests: Sequence[Request]) -> list[Generated]:
        return generate(self.model, requests, self.stops, self.tokenizer.pad_token_id or 0)


@dataclass(frozen=True)
class Prompt:
    """One answer to generate, and what its line says beside the answer."""

    row: Mapping[str, Any]
    messages: Sequence[Mapping[str, Any]]
    tokens: list[int]
    seed: int
    extra_info: Mapping[str, Any] = field(default_factory=dict)
    """What the row says of its tools; see ``engine.measure.evaluate``."""

    @property
    def key(self) -> str:
        return f"{self.row['uid']} {self.row['sample']}"


def load_target(form: str, source: str, job: Mapping[str, Any]) -> tuple[Any, Any]:
    """The model, LoRA merged, on the job's device, and its tokenizer.

    UsageError for a tokenizer without chat template if the job names none.
    """
    import torch

    dtype = getattr(torch, job["dtype"])
    model, names = load_weights(form, source, dtype)
    tokenizer = load_tokenizer(names, job)
    return model.to(job["device"], dtype).eval(), tokenizer


def load_weights(form: str, source: str, dtype: Any) -> tuple[Any, Path | str]:
    """The model, LoRA merged, on the CPU, and the folder or hub name of its tokenizer."""
    from transformers import AutoModelForCausalLM

    if form == "checkpoint":
        shards = shard_folder(Path(source))
        weights = build(shards)
        # ``build`` leaves the buffers that no checkpoint holds, such as rotary frequencies, unset.
        model = type(weights).from_pretrained(
            None, config=weights.config, state_dict=weights.state_dict(), dtype=dtype
        )
        return model, shards / "huggingface"
    if is_adapter(source):
        return _with_adapter(source, dtype)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
    return model, Path(source) if Path(source).is_dir() else source


def load_tokenizer(source: Path | str, job: Mapping[str, Any]) -> Any:
    """The tokenizer of a folder or hub name, with the job's chat template if it names one."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source)
    if job["chat_template"]:
        tokenizer.chat_template = job["chat_template"]
    if not tokenizer.chat_template:
        raise UsageError(
            f"the tokenizer has no chat template. Set {job['template_key']} in the config"
        )
    return tokenizer


def is_adapter(source: str) -> bool:
    return (Path(source) / "adapter_config.json").is_file()


def _with_adapter(folder: str, dtype: Any) -> tuple[Any, Any]:
    """The base model that an adapter names, with the adapter merged."""
    from peft import AutoPeftModelForCausalLM

    model = AutoPeftModelForCausalLM.from_pretrained(folder, dtype=dtype)
    base = model.peft_config["default"].base_model_name_or_path
    own = any((Path(folder) / name).is_file() for name in ("tokenizer.json", "tokenizer.model"))
    return model.merge_and_unload(), Path(folder) if own else base
