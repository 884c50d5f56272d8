"""Render a row with verl's own code: ``python -m engine.train.token_view ROW SPLIT``. With
``length`` in place of the row, the data set class of the config says its ``rows``.

Reads a pickled ``Config`` from its input, and prints ``TokenView`` or an ``error`` as JSON. For
GRPO, the agent loop of the config runs with a model that gives the right answer, and before it
calls the first tool of the row once. No tool is executed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.parquet import pq
from engine.base.typed import convert_record, to_json
from engine.checks.samples import Split, split_files
from engine.checks.token_view import Part, Role, Token, TokenView, ToolUse, require_model
from engine.config.compose import verl_config
from engine.config.load import Config
from engine.config.scoring import AGENT_LOOP, MULTI_TURN, TOOL_AGENT, reward_function
from engine.reward.own.loading import one_line
from engine.run.conversation import FIELD, Conversation
from engine.run.kinds import GRPO
from engine.tasks.registry import find_task
from engine.train import environment

_LOOPS = ("single_turn_agent", TOOL_AGENT)
_SAMPLES: Mapping[str, Any] = {
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}
"""A value of each type of JSON Schema but text."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="engine.train.token_view")
    parser.add_argument("row")
    parser.add_argument("split", choices=("train", "val"))
    args = parser.parse_args(arguments)
    config = pickle.load(sys.stdin.buffer)
    # A file of tools may print: what it prints is no part of the answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with answer:
        answer.write(json.dumps(_answer(config, args.row, args.split)))
    os._exit(0)  # Threads that the file of tools started must not keep the process.


def _answer(config: Config, row: str, split: Split) -> dict[str, Any]:
    """The view, or the ``error``."""
    try:
        environment.prepare(os.environ, config.get("grubrics.device"))
        if row == "length":
            return {"rows": _count_rows(config, split)}
        view: dict[str, Any] = to_json(render(config, int(row), split))
        return view
    except UsageError as error:
        return {"error": str(error)}
    except Exception as error:
        what = (
            "the data set cannot be constructed"
            if row == "length"
            else f"row {row} cannot be rendered"
        )
        return {"error": f"{what}: {one_line(error)}"}


def _count_rows(config: Config, split: Split) -> int | None:
    """The length of the data set as verl constructs it; None if its class has none."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import create_rl_dataset

    composed = OmegaConf.create(verl_config(config, Path("attempt_1")))
    data = composed.data
    made = create_rl_dataset(
        data[f"{split}_files"],
        data,
        _load_tokenizer(config, require_model(config)),
        None,
        is_train=split == "train",
        max_samples=data.get(f"{split}_max_samples", -1),
    )
    return len(made) if hasattr(made, "__len__") else None


def render(config: Config, row: int, split: Split) -> TokenView:
    """UsageError for a row, model or agent loop that cannot be rendered."""
    folder = require_model(config)
    if config.kind == GRPO:
        file, values = _read_row(config, row, split)
        return _render_rollout(config, folder, file, row, values)
    return _render_conversation(config, folder, row, split)


def _read_row(config: Config, row: int, split: Split) -> tuple[Path, dict[str, Any]]:
    """The ``row``-th row of the first file."""
    files = split_files(config, split)
    if not files or not files[0].is_file():
        raise UsageError(f"{files[0] if files else f'data.{split}_files'} does not exist")
    rows = pq.read_table(files[0]).slice(max(row, 0), 1).to_pylist()
    if row < 0 or not rows:
        last = pq.read_metadata(files[0]).num_rows - 1
        raise UsageError(f"{files[0]} has no row {row}; its rows are 0 to {last}")
    return files[0], rows[0]


def _render_rollout(
    config: Config, folder: Path, file: Path, row: int, values: Mapping[str, Any]
) -> TokenView:
    if (name := config.get(AGENT_LOOP)) not in _LOOPS:
        raise UsageError(f"the agent loop {name} is not one of {', '.join(_LOOPS)}")
    from jinja2 import TemplateError
    from omegaconf import OmegaConf

    composed = OmegaConf.create(verl_config(config, Path("attempt_1")))
    tokenizer = _load_tokenizer(config, folder)
    if name == TOOL_AGENT:
        _require_parser(composed, tokenizer)
    loop = _ScriptedLoop(composed, tokenizer, folder, name)
    key = str(config.get("data.prompt_key", "prompt"))
    if not isinstance(values.get(key), list):
        raise UsageError(f"{file}: {key} of row {row} is no list of messages")
    extra = values.get("extra_info") or {}
    try:
        output, tools = asyncio.run(loop.run(values[key], _right_answer(config, values), extra))
    except TemplateError as error:
        raise UsageError(f"the chat template of {folder} refuses row {row}: {error}") from error
    mask = [0] * len(output.prompt_ids) + list(output.response_mask)
    parts = _parts(tokenizer, [*output.prompt_ids, *output.response_ids], mask)
    return TokenView(str(file), row, parts, tools)


def _require_parser(config: Any, tokenizer: Any) -> None:
    from verl.experimental.agent_loop.tool_parser import ToolParser

    form = config.actor_rollout_ref.rollout.multi_turn.format
    try:
        ToolParser.get_tool_parser(form, tokenizer)
    except ValueError as error:
        key = f"{MULTI_TURN}.format"
        raise UsageError(f"{key}={form}: verl reads no such form (docs/tools.md)") from error


class _ScriptedLoop:
    """An agent loop whose model generates given turns."""

    def __init__(self, config: Any, tokenizer: Any, folder: Path, name: str) -> None:
        self._config, self._tokenizer, self._name = config, tokenizer, name
        self._folder = folder
        self._turns: list[str] = []
        self._tools: list[Any] = []

    async def run(
        self, prompt: list[Any], answer: str, extra: Mapping[str, Any]
    ) -> tuple[Any, ToolUse | None]:
        """verl's output for a prompt, and what became of the call. ``extra`` is the row's."""
        from transformers import AutoConfig
        from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

        from engine.train.tool_loop import ToolLoop, make_loop

        has_tools = self._name == TOOL_AGENT
        self._tools = _declared_tools(self._config) if has_tools else []
        active = _select(self._tools, extra.get("tool_selection"))
        call = _first_call(self._tokenizer, prompt, active) if active else None
        self._turns = [call.text, answer] if call else [answer]
        kind = ToolLoop if has_tools else SingleTurnAgentLoop
        model_type = AutoConfig.from_pretrained(self._folder).model_type
        loop = make_loop(kind, self._config, self, self._tokenizer, model_type, self._tools)
        output = await loop.run({}, raw_prompt=prompt, extra_info=extra)
        return output, self._tool_use(output, call) if has_tools else None

    async def generate(self, **_: Any) -> Any:
        """The next turn, as verl's server gives it."""
        from verl.workers.rollout.replica import TokenOutput

        text = self._turns.pop(0) + (self._tokenizer.eos_token or "")
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return TokenOutput(token_ids=ids, extra_fields={"global_steps": 0})

    def _tool_use(self, output: Any, call: _Call | None) -> ToolUse:
        if call is None:
            return ToolUse((), written=False, listed=True, outcome=None, answered=False)
        conversation = convert_record(output.extra_fields[FIELD], Conversation)
        assert conversation is not None
        replies = "".join(turn.text for turn in conversation.turns if not turn.trained)
        calls = conversation.calls
        return ToolUse(
            schemas=tuple(_schemas(self._tools)),
            written=call.written,
            listed=call.listed,
            outcome=calls[0].outcome if calls else None,
            answered=bool(calls) and bool(calls[0].reply) and calls[0].reply in replies,
        )


def _declared_tools(config: Any) -> list[Any]:
    """The tools that the config declares, with a function that only says that it was called."""
    from verl.tools.function_tool import FunctionTool
    from verl.tools.tool_registry import load_all_tools

    multi_turn = config.actor_rollout_ref.rollout.multi_turn
    try:
        tools = load_all_tools(multi_turn.tool_config_path, multi_turn.function_tool_path)
    except (Exception, SystemExit) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise UsageError(f"the tools cannot be loaded: {one_line(error)}{line}") from error

    def stand_in(name: str) -> Any:
        return lambda **_: f"(reply of {name})"

    return [FunctionTool(tool.name, stand_in(tool.name), tool.tool_schema) for tool in tools]


def _select(tools: Sequence[Any], selection: Any) -> Sequence[Any]:
    """The tools of a row, as verl selects them. UsageError for a row that selects none."""
    if not selection or not tools:
        return tools
    by_name = {tool.name: tool for tool in tools}
    if selected := [by_name[name] for name in selection if name in by_name]:
        return selected
    names = ", ".join(map(str, selection))
    raise UsageError(
        f"extra_info.tool_selection names no tool: {names}; there are {', '.join(by_name)}"
    )


def _schemas(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """The tools as the chat template gets them."""
    schemas = (tool.tool_schema for tool in tools)
    return [schema.model_dump(exclude_unset=True, exclude_none=True) for schema in schemas]


@dataclass(frozen=True)
class _Call:
    """The text of a call. ``written`` and ``listed`` are those of ``ToolUse``."""

    text: str
    written: bool
    listed: bool


def _first_call(tokenizer: Any, prompt: list[Any], tools: Sequence[Any]) -> _Call:
    """A call of the first tool with arguments of the right types."""
    declared = _schemas(tools)
    function = declared[0]["function"]
    properties = function.get("parameters", {}).get("properties", {})
    arguments = {name: _sample(schema) for name, schema in properties.items()}
    call = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    try:
        before, after = (
            tokenizer.apply_chat_template(messages, tools=declared, tokenize=False, **options)
            for messages, options in (
                (prompt, {"add_generation_prompt": True}),
                ([*prompt, message], {}),
            )
        )
    except Exception:  # A template may refuse tools or calls.
        before, after = "", ""
    listed = all(tool.name in before for tool in tools)
    text = after.removeprefix(before).split(tokenizer.eos_token or "\0")[0]
    if before and after.startswith(before) and function["name"] in text:
        return _Call(text.strip(), written=True, listed=listed)
    body = json.dumps({"name": function["name"], "arguments": arguments}, ensure_ascii=False)
    return _Call(f"<tool_call>\n{body}\n</tool_call>", written=False, listed=listed)


def _sample(schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    return schema["enum"][0] if schema.get("enum") else _SAMPLES.get(str(kind), "text")


def _right_answer(config: Config, values: Mapping[str, Any]) -> str:
    """A response that gets the full score, as far as the row says."""
    truth = str((values.get("reward_model") or {}).get("ground_truth") or "")
    extra = values.get("extra_info") or {}
    function = reward_function(config)
    if function is not None and function.task is not None:
        return find_task(function.task).right_answer(truth, extra)
    return truth or str(extra.get("golden_rubric") or "")


def _render_conversation(config: Config, folder: Path, row: int, split: Split) -> TokenView:
    """Tokens and mask of verl's data set for SFT."""
    import tempfile

    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    from engine.data.conversations import read_conversations
    from engine.train.sft_inputs import write_parquet

    file = next(iter(split_files(config, split)), None)
    if file is None:
        raise UsageError(f"data.{split}_file is not set")
    conversations = read_conversations(file)
    if not 0 <= row < len(conversations):
        raise UsageError(f"{file} has no row {row}; its rows are 0 to {len(conversations) - 1}")
    tokenizer = _load_tokenizer(config, folder)
    settings = {
        "pad_mode": "no_padding",
        "truncation": "right",
        "max_length": config.get("data.max_seq_length"),
        "ignore_input_ids_mismatch": config.get("data.ignore_input_ids_mismatch"),
    }
    with tempfile.TemporaryDirectory() as scratch:
        parquet = write_parquet([conversations[row]], Path(scratch) / "row.parquet")
        try:
            encoded = MultiTurnSFTDataset(str(parquet), tokenizer, settings)[0]
        except AssertionError as error:
            raise UsageError(
                "the chat template renders the turns one by one differently from the whole "
                "conversation; set data.ignore_input_ids_mismatch=true"
            ) from error
    parts = _parts(tokenizer, encoded["input_ids"].tolist(), encoded["loss_mask"].tolist())
    return TokenView(str(file), row, parts)


def _load_tokenizer(config: Config, folder: Path) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    if template := config.get(config.kind.template_key):
        tokenizer.chat_template = template
    if not tokenizer.chat_template:
        raise UsageError(f"{folder} has no chat template; set {config.kind.template_key}")
    return tokenizer


def _parts(tokenizer: Any, ids: Sequence[int], mask: Sequence[int]) -> tuple[Part, ...]:
    from engine.train.tool_loop import split_turns

    parts, start = list[Part](), 0
    for turn in split_turns(tokenizer.decode, ids, mask):
        tokens = ids[start : start + turn.tokens]
        role: Role = "model" if turn.trained else "tools" if parts else "prompt"
        texts = (Token(int(token), tokenizer.decode([token])) for token in tokens)
        parts.append(Part(role, turn.trained, tuple(texts), turn.text))
        start += turn.tokens
    return tuple(parts)


if __name__ == "__main__":
    main()
