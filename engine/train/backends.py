"""What generates the answers of an evaluation, and what it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

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
    """What the row says of its tools; see ``engine.evaluation.evaluate``."""

    @property
    def key(self) -> str:
        return f"{self.row['uid']} {self.row['sample']}"
