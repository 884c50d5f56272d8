"""The agent loop with tools: which tokens are trained, and what became of each call."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.tools.base_tool import BaseTool
from verl.tools.function_tool import FUNCTION_TOOL_REGISTRY, FunctionTool, function_tool
from verl.tools.schemas import OpenAIFunctionToolSchema
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from engine.base.typed import convert_record
from engine.config.compose import verl_config
from engine.config.load import load_config
from engine.run.conversation import FIELD, Conversation
from engine.train.tool_loop import ToolLoop
from tests.engine.train.conftest import SmallWorld
from tests.paths import CONFIGS

MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"
QUESTION = [{"role": "user", "content": "What is 1 + 2?"}]


def price(item: str) -> str:
    return {"apple": "7 coins", "pear": "9 coins"}[item]


def hang(item: str) -> str:
    threading.Event().wait()
    return item


def call(name: str, arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def tool(function: Callable[..., Any]) -> FunctionTool:
    parameters = {"type": "object", "properties": {"item": {"type": "string"}}}
    declared = {
        "name": function.__name__,
        "description": "Look up an item",
        "parameters": {**parameters, "required": ["item"]},
    }
    schema = OpenAIFunctionToolSchema.model_validate({"type": "function", "function": declared})
    is_async = inspect.iscoroutinefunction(function)
    return FunctionTool(function.__name__, function, schema, is_async)


class ScriptedServer:
    """Generates the given turns, each with its end token."""

    def __init__(self, tokenizer: Any, turns: tuple[str, ...]) -> None:
        self._tokenizer, self._turns = tokenizer, iter(turns)
        self.prompts: list[list[int]] = []

    async def generate(self, prompt_ids: list[int], **_: Any) -> TokenOutput:
        self.prompts.append(list(prompt_ids))
        ids = self._tokenizer.encode(next(self._turns) + "<|im_end|>", add_special_tokens=False)
        fields = {"global_steps": 1}
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields=fields)


class Rollout:
    """A rollout of the loop whose model says ``turns``."""

    def __init__(
        self,
        world: SmallWorld,
        *turns: str,
        overrides: tuple[str, ...] = (),
        tools: Sequence[Any] = (),
        row: Mapping[str, Any] | None = None,
    ) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(world.model)
        defaults = (
            "actor_rollout_ref.rollout.agent.default_agent_loop=tool_agent",
            "data.max_response_length=400",
            f"{MULTI_TURN}.max_assistant_turns=3",
        )
        config = load_config(str(CONFIGS / "grpo_tiny.yaml"), (*defaults, *overrides), {})
        composed = OmegaConf.create(verl_config(config, Path("attempt_1")))
        self.server = ScriptedServer(self.tokenizer, turns)
        tools = tools or [tool(price), tool(hang)]
        self.output = asyncio.run(self._run(composed, tools, row or {}))
        conversation = convert_record(self.output.extra_fields[FIELD], Conversation)
        assert conversation is not None
        self.conversation = conversation

    async def _run(self, config: Any, tools: Sequence[Any], row: Mapping[str, Any]) -> Any:
        loop = ToolLoop(
            trainer_config=DictConfigWrap(config),
            server_manager=self.server,
            tokenizer=self.tokenizer,
            processor=None,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(config.data),
            hf_model_type="qwen2",
            tools=ToolListWrap(list(tools)),
        )
        return await loop.run({}, raw_prompt=QUESTION, **row)

    @property
    def outcomes(self) -> list[str]:
        return [each.outcome for each in self.conversation.calls]

    def text(self, *, trained: bool) -> str:
        pairs = zip(self.output.response_ids, self.output.response_mask, strict=True)
        return str(self.tokenizer.decode([token for token, mask in pairs if mask == trained]))


def test_every_token_of_the_model_is_trained_and_none_of_a_tool(world: SmallWorld) -> None:
    first, second = call("price", {"item": "apple"}), "It costs 7 coins."
    rollout = Rollout(world, first, second)
    assert rollout.text(trained=True) == f"{first}<|im_end|>{second}<|im_end|>"
    reply = "\n<|im_start|>tool\n7 coins<|im_end|>\n<|im_start|>assistant\n"
    assert rollout.text(trained=False) == reply


def test_the_model_continues_from_exactly_the_tokens_that_are_trained(world: SmallWorld) -> None:
    rollout = Rollout(world, call("price", {"item": "apple"}), "7")
    before, after = rollout.server.prompts
    generated = [*rollout.output.prompt_ids, *rollout.output.response_ids]
    assert rollout.output.prompt_ids == before
    assert generated[: len(after)] == after


def test_log_probabilities_are_beside_their_tokens(world: SmallWorld) -> None:
    output = Rollout(world, call("price", {"item": "apple"}), "7").output
    assert output.response_logprobs == [-0.5 if mask else 0.0 for mask in output.response_mask]


def test_the_turns_are_recorded_with_their_tokens(world: SmallWorld) -> None:
    rollout = Rollout(world, call("price", {"item": "pear"}), "9")
    turns = rollout.conversation.turns
    assert [turn.trained for turn in turns] == [True, False, True]
    assert sum(turn.tokens for turn in turns) == len(rollout.output.response_ids)
    ids = rollout.output.response_ids[rollout.conversation.last_answer()]
    assert rollout.tokenizer.decode(ids, skip_special_tokens=True) == "9"


@pytest.mark.parametrize(
    ("first", "outcome", "reply"),
    [
        (call("price", {"item": "apple"}), "ok", "7 coins"),
        (call("prise", {"item": "apple"}), "unknown_tool", "Unknown function 'prise'."),
        (call("price", {"thing": "apple"}), "bad_arguments", "'item' is a required property"),
        (call("price", {"item": 3}), "bad_arguments", "3 is not of type 'string'"),
        (call("price", "apple"), "bad_arguments", "expected an object"),
        (call("price", {"item": "\ud800"}), "failed", "Error executing tool 'price'"),
        (call("\ud800", {}), "unknown_tool", "Unknown function '?'"),
        (call("price", {"item": float("nan")}), "bad_arguments", "nan is not of type 'string'"),
        (call("price", {"item": "fig"}), "failed", "Error executing tool 'price': 'fig'"),
        (call("hang", {"item": "fig"}), "timed_out", "no reply within 0.05 s"),
    ],
)
def test_a_call_has_an_outcome_and_a_reply(
    world: SmallWorld, first: str, outcome: str, reply: str
) -> None:
    rollout = Rollout(world, first, "done", overrides=("grubrics.tool_timeout_s=0.05",))
    assert (rollout.outcomes, rollout.conversation.end) == ([outcome], "answer")
    assert reply in rollout.conversation.calls[0].reply
    assert reply in rollout.text(trained=False)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        SystemExit("stop"),
        KeyboardInterrupt("stop"),
        StopIteration("stop"),
        asyncio.CancelledError("stop"),
        OSError("not UTF-8: \udcff stop"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_tool_raises_is_its_failure(
    world: SmallWorld, error: BaseException, is_async: bool
) -> None:
    def quit(item: str) -> str:
        raise error

    async def quit_later(item: str) -> str:
        raise error

    function = quit_later if is_async else quit
    rollout = Rollout(world, call(function.__name__, {"item": "x"}), "7", tools=[tool(function)])
    assert (rollout.outcomes, rollout.conversation.end) == (["failed"], "answer")
    assert "op" in rollout.conversation.calls[0].reply.removeprefix("Error executing tool")


@pytest.mark.parametrize(
    ("value", "outcome", "reply"),
    [
        (None, "ok", "None"),
        ({"coins": float("nan")}, "ok", '{"coins": NaN}'),
        (("7 coins", 0.5), "ok", "7 coins"),
        ((1, 2, 3, 4), "failed", "tuple must have length 1, 2, or 3"),
        ("\ud800", "ok", "?"),
        ("\x1b[2J<|im_end|>\n\0", "ok", "\x1b[2J<|im_end|>\n\0"),
    ],
    ids=repr,
)
def test_a_tool_may_return_anything(
    world: SmallWorld, value: Any, outcome: str, reply: str
) -> None:
    def give(item: str) -> Any:
        return value

    rollout = Rollout(world, call("give", {"item": "x"}), "7", tools=[tool(give)])
    assert rollout.outcomes == [outcome]
    assert reply in rollout.conversation.calls[0].reply
    assert rollout.text(trained=True).endswith("7<|im_end|>")


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"item": "x", "days": None}, "ok"),
        ({"item": "x", "days": "2"}, "bad_arguments"),
        ({"item": None}, "bad_arguments"),
    ],
)
def test_null_fits_a_parameter_that_is_optional(
    world: SmallWorld, arguments: dict[str, Any], outcome: str
) -> None:
    def rent(item: str, days: int | None = None) -> str:
        """Look up a rent.

        Args:
            item: Name of the item.
            days: How many days.
        """
        return f"{item} for {days} days"

    function_tool(rent)
    declared = FUNCTION_TOOL_REGISTRY.pop("rent")
    rollout = Rollout(world, call("rent", arguments), "7", tools=[declared])
    assert rollout.outcomes == [outcome]


def test_a_class_that_returns_no_response_fails(world: SmallWorld) -> None:
    class Bare(BaseTool):
        async def execute(self, instance_id: str, parameters: dict[str, Any], **_: Any) -> Any:
            return "7 coins", 0.0, {}

    bare = Bare({}, tool(price).tool_schema)
    rollout = Rollout(world, call("price", {"item": "apple"}), "7", tools=[bare])
    assert rollout.outcomes == ["failed"]
    assert "returned str, not ToolResponse" in rollout.conversation.calls[0].reply


@pytest.mark.parametrize(
    ("selection", "outcome"),
    [(["price"], "ok"), (["hang"], "unknown_tool"), (["x"], "unknown_tool")],
)
def test_a_row_restricts_its_tools(world: SmallWorld, selection: list[str], outcome: str) -> None:
    row = {"extra_info": {"tool_selection": selection}, "tools_kwargs": None}
    rollout = Rollout(world, call("price", {"item": "apple"}), "7", row=row)
    assert rollout.outcomes == [outcome]


def test_a_call_that_is_not_json_ends_the_conversation(world: SmallWorld) -> None:
    rollout = Rollout(world, '<tool_call>{"name": </tool_call>')
    assert (rollout.outcomes, rollout.conversation.end) == (["malformed"], "malformed")


def test_a_call_without_its_end_is_malformed(world: SmallWorld) -> None:
    assert Rollout(world, '<tool_call>{"name": "price"').outcomes == ["malformed"]


def test_of_two_calls_the_one_that_cannot_be_read_is_named(world: SmallWorld) -> None:
    turn = call("price", {"item": "apple"}) + "<tool_call>price(pear)</tool_call>"
    assert Rollout(world, turn, "7").outcomes == ["ok", "malformed"]


def test_a_long_reply_is_cut(world: SmallWorld) -> None:
    limits = (f"{MULTI_TURN}.max_tool_response_length=4",)
    rollout = Rollout(world, call("price", {"item": "apple"}), "7", overrides=limits)
    assert rollout.outcomes == ["cut"]
    assert rollout.conversation.calls[0].reply == "7 ...(truncated)...ns"


def test_a_call_in_the_last_turn_is_not_run(world: SmallWorld) -> None:
    limits = (f"{MULTI_TURN}.max_assistant_turns=1",)
    rollout = Rollout(world, call("price", {"item": "apple"}), overrides=limits)
    assert (rollout.outcomes, rollout.conversation.end) == (["not_run"], "turn_limit")


def test_a_call_beyond_the_parallel_ones_is_not_run(world: SmallWorld) -> None:
    both = call("price", {"item": "apple"}) + call("price", {"item": "pear"})
    limits = (f"{MULTI_TURN}.max_parallel_calls=1",)
    assert Rollout(world, both, "7", overrides=limits).outcomes == ["ok", "not_run"]


def test_a_reply_that_does_not_fit_ends_the_conversation(world: SmallWorld) -> None:
    first = call("price", {"item": "apple"})
    fits = len(Rollout(world, first, "7").output.response_ids)
    limits = (f"data.max_response_length={fits - 10}",)
    rollout = Rollout(world, first, "7", overrides=limits)
    assert (rollout.outcomes, rollout.conversation.end) == (["ok"], "length")
    assert all(rollout.output.response_mask)


def test_numbers_have_the_same_names_for_every_rollout(world: SmallWorld) -> None:
    numbers = [
        Rollout(world, first, "7").conversation.numbers()
        for first in ("3", call("price", {"item": "apple"}))
    ]
    assert [*numbers[0]] == [*numbers[1]]
    assert [(each["turns"], each["calls"], each["calls_ok"]) for each in numbers] == [
        (1, 0, 0),
        (2, 1, 1),
    ]


def test_a_parser_of_another_form_has_its_own_mark(world: SmallWorld) -> None:
    turn = "<|tool_call_begin|>functions.price:0"
    rollout = Rollout(world, turn, overrides=(f"{MULTI_TURN}.format=kimi",))
    assert (rollout.outcomes, rollout.conversation.end) == (["malformed"], "malformed")
