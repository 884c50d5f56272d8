"""The check of tools: the model sees them, its calls are read, and it sees the replies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.checks import tools
from engine.checks.check import Check, Subject
from engine.checks.token_view import NoModelError, Part, Token, TokenView, ToolUse
from engine.config.compose import effective
from engine.config.load import load_config
from tests.paths import CONFIGS

MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"
AGENT = "actor_rollout_ref.rollout.agent.default_agent_loop=tool_agent"
PRICE = {"type": "function", "function": {"name": "price", "parameters": {"type": "object"}}}
USE = ToolUse((PRICE,), written=True, listed=True, outcome="ok", answered=True)


def subject(*overrides: str, view: TokenView | UsageError | None = None) -> Subject:
    """A subject whose row was rendered as ``view``."""

    class Rendered(Subject):
        tool_view: Any = view

    config = load_config(str(CONFIGS / "grpo_tiny.yaml"), (AGENT, *overrides), {})
    return Rendered(effective(config, Path("attempt")), {}, Path("runs"))


def checked(use: ToolUse | None, *overrides: str) -> Check:
    parts = (
        Part("prompt", False, (Token(1, "a"), Token(2, "b")), "ab"),
        Part("model", True, (Token(3, "c"),), "c"),
    )
    view = TokenView("train.parquet", 0, parts, use)
    return tools.check(subject(f"{MULTI_TURN}.function_tool_path=tools.py", *overrides, view=view))


def test_a_config_without_tools_is_not_checked() -> None:
    config = load_config(str(CONFIGS / "grpo_tiny.yaml"), (), {})
    assert "single_turn_agent calls no tools" in (tools.skip_reason(config) or "")


def test_an_agent_without_tools_is_refused_with_the_key_to_set() -> None:
    check = tools.check(subject())
    assert (check.status, check.fix) == ("fail", f"{MULTI_TURN}.function_tool_path=tools.py")


def test_tools_that_work_are_counted_with_the_tokens_that_train() -> None:
    check = checked(USE)
    assert (check.status, check.message) == (
        "ok",
        "1 tool (price); of row 0 with a call, 1 of 3 tokens train",
    )


def test_tools_that_cannot_be_loaded_are_refused_with_the_reason() -> None:
    view = UsageError("the tools cannot be loaded: SyntaxError: line 3")
    check = tools.check(subject(f"{MULTI_TURN}.function_tool_path=tools.py", view=view))
    assert (check.status, "tools.py: the tools cannot be loaded" in check.message) == ("fail", True)


@pytest.mark.parametrize(
    ("use", "status", "words"),
    [
        (replace(USE, schemas=()), "fail", "declares no tools"),
        (replace(USE, listed=False), "warn", "does not write the tools into the prompt"),
        (replace(USE, outcome=None), "fail", "format=hermes does not read the calls"),
        (replace(USE, outcome=None, written=False), "warn", "writes no calls"),
        (replace(USE, outcome="not_run"), "warn", "do not fit in data.max_response_length"),
        (replace(USE, answered=False), "fail", "leaves out messages with the role tool"),
    ],
)
def test_what_keeps_the_model_from_its_tools_is_named(
    use: ToolUse, status: str, words: str
) -> None:
    check = checked(use)
    assert (check.status, words in check.message) == (status, True)


def test_too_few_turns_for_a_call_are_refused() -> None:
    check = checked(USE, f"{MULTI_TURN}.max_assistant_turns=1")
    assert (check.status, check.fix) == ("fail", f"{MULTI_TURN}.max_assistant_turns=2")


def test_without_the_model_on_the_disk_nothing_is_rendered() -> None:
    view = NoModelError("Qwen/Qwen3-0.6B is not on this disk")
    check = tools.check(subject(f"{MULTI_TURN}.function_tool_path=tools.py", view=view))
    assert (check.status, "is not on this disk" in check.message) == ("skip", True)
