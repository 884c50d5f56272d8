"""An evaluation with tools: its conversations take their turns together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from transformers import AutoTokenizer

from engine.config.compose import verl_config
from engine.config.load import load_config
from engine.train.backends import Prompt
from engine.train.generation import Generated, Request
from engine.train.tool_answers import ToolAnswer, answer_with_tools
from tests.engine.train.conftest import SmallWorld
from tests.paths import CONFIGS

STOCK = '''
from verl.tools.function_tool import function_tool


@function_tool
def stock(item: str) -> str:
    """Look up the stock of an item.

    Args:
        item: Name of the item.
    """
    return f"{len(item)} pieces"
'''
CALL = '<tool_call>{"name": "stock", "arguments": {"item": "lamp"}}</tool_call>'


class Scripted:
    """A backend that calls the tool if it is asked to, and keeps the requests of each batch."""

    batch, name, model_type = 8, "scripted", "qwen2"

    def __init__(self, model: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self.stops = [self.tokenizer.eos_token_id]
        self.batches: list[list[Request]] = []

    def generate(self, requests: Sequence[Request]) -> list[Generated]:
        self.batches.append(list(requests))
        return [Generated(self._next_turn(request)) for request in requests]

    def _next_turn(self, request: Request) -> list[int]:
        text = self.tokenizer.decode(request.prompt)
        answer = CALL if "call" in text and "pieces" not in text else "42"
        return list(self.tokenizer.encode(f"{answer}<|im_end|>", add_special_tokens=False))


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tools") / "stock.py"
    file.write_text(STOCK)
    return file


def answers(
    world: SmallWorld,
    stock: Path,
    *questions: str,
    whole: bool = False,
    extra_info: Mapping[str, Any] | None = None,
) -> tuple[Scripted, list[ToolAnswer]]:
    rollout = "actor_rollout_ref.rollout"
    overrides = (
        f"{rollout}.agent.default_agent_loop=tool_agent",
        f"{rollout}.multi_turn.function_tool_path={stock}",
        "data.max_response_length=400",
    )
    config = load_config(str(CONFIGS / "grpo_tiny.yaml"), overrides, {})
    composed = OmegaConf.to_container(
        OmegaConf.create(verl_config(config, Path("attempt_1"))), resolve=True
    )
    tools = {"config": composed, "device": "cpu", "scores_all_turns": whole}
    prompts = [
        Prompt(
            {"uid": str(n), "sample": 0},
            [{"role": "user", "content": text}],
            [],
            seed=n,
            extra_info=extra_info or {},
        )
        for n, text in enumerate(questions)
    ]
    backend = Scripted(world.model)
    return backend, answer_with_tools(backend, prompts, Request([], 300), tools)


def test_all_open_conversations_share_a_batch(world: SmallWorld, stock: Path) -> None:
    backend, made = answers(world, stock, "call it", "say it", "call it now")
    assert [len(batch) for batch in backend.batches] == [3, 2]
    assert [len(answer.conversation.calls) for answer in made] == [1, 0, 1]


def test_a_row_restricts_its_tools(world: SmallWorld, stock: Path) -> None:
    _, [answer] = answers(world, stock, "call it", extra_info={"tool_selection": ["other"]})
    assert {call.outcome for call in answer.conversation.calls} == {"unknown_tool"}


def test_a_turn_has_random_numbers_of_its_own(world: SmallWorld, stock: Path) -> None:
    backend, _ = answers(world, stock, "call it", "call it")
    seeds = [request.seed for batch in backend.batches for request in batch]
    assert len(set(seeds)) == len(seeds) == 4


@pytest.mark.parametrize(("whole", "text"), [(False, "42"), (True, f"{CALL}\ntool\n4 pieces")])
def test_the_last_turn_is_scored_or_the_whole_response(
    world: SmallWorld, stock: Path, whole: bool, text: str
) -> None:
    _, [answer] = answers(world, stock, "call it", whole=whole)
    assert answer.text.startswith(text)
    assert answer.stopped
