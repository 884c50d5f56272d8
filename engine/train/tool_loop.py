"""verl's tool agent loop, which also records the turns and what became of each call.

verl drops a call that it cannot read, and one beyond ``max_parallel_calls``, and waits for a tool
without a limit. The model reads the same replies as with verl's loop, except for arguments that
do not fit the tool's schema: they are refused before the tool runs.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from typing_extensions import override
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap, ToolListWrap
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
from verl.experimental.agent_loop.tool_parser import ToolParser
from verl.tools.function_tool import FunctionTool, normalize_function_tool_return
from verl.tools.schemas import ToolResponse

from engine.base.typed import to_json
from engine.run.conversation import FIELD, Call, Conversation, End, Outcome, Turn
from engine.tasks.tool_calls.schemas import find_problem
from engine.train.agent_loop import LENGTH, with_temperature

_START_TAGS = ("tool_call_start_token", "tool_call_begin_token")
"""Where verl's parsers keep the text that begins a call; the one of gpt-oss has none."""


def make_loop(
    kind: Any, config: Any, server: Any, tokenizer: Any, model_type: str, tools: Sequence[Any]
) -> Any:
    """An agent loop of verl outside of a training; ``server`` generates its turns."""
    from verl.utils.dataset.rl_dataset import RLHFDataset

    return kind(
        trainer_config=DictConfigWrap(config),
        server_manager=server,
        tokenizer=tokenizer,
        processor=None,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        hf_model_type=model_type,
        tools=ToolListWrap(tools),
    )


class ToolLoop(ToolAgentLoop):
    """One rollout: verl makes an instance for each."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._watched = _WatchedParser(getattr(self, "tool_parser"))  # noqa: B009 - untyped in verl
        self.tool_parser = self._watched
        self._limit_s = float(self.config.grubrics.tool_timeout_s)
        self._calls: list[Call] = []

    async def run(
        self, sampling_params: dict[str, Any], priority: int = 0, **kwargs: Any
    ) -> AgentLoopOutput:
        sampling = with_temperature(sampling_params, kwargs)
        # All turns and replies together; the server knows only what is left of the longest.
        if LENGTH in kwargs:
            self.response_length = int(kwargs[LENGTH])
        output = await super().run(sampling, priority, **kwargs)
        turns = split_turns(self.tokenizer.decode, output.response_ids, output.response_mask)
        is_full = len(output.response_ids) >= self.response_length
        calls = [*self._calls, *self._not_executed(turns)]
        conversation = Conversation(
            turns=tuple(turns), calls=tuple(calls), end=self._end(turns, is_full=is_full)
        )
        output.extra_fields[FIELD] = to_json(conversation)
        return output

    @override
    async def _call_tool(
        self, tool_call: Any, tools_kwargs: dict[str, Any], agent_data: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        started = time.perf_counter()
        # Those of the row, which may be none at all.
        tools: Any = getattr(agent_data, "_active_tools", self.tools)
        reply = _refused(tool_call.name, tool_call.arguments, tools)
        if reply is None:
            tool, arguments = tools[tool_call.name], json.loads(tool_call.arguments)
            # verl's data set leaves out no null of a parquet file.
            options = (tools_kwargs or {}).get(tool_call.name) or {}
            work = _execute(tool, arguments, options, agent_data)
            reply = self._shortened(await _limited(tool_call.name, work, self._limit_s))
        self._calls.append(
            Call(
                turn=len(self._watched.counts),
                tool=_encodable(tool_call.name),
                arguments=_encodable(tool_call.arguments),
                outcome=reply.outcome,
                reply=reply.response.text or "",
                seconds=time.perf_counter() - started,
            )
        )
        return reply.response, reply.reward, reply.numbers

    def _shortened(self, reply: _Reply) -> _Reply:
        """Cut a long reply as verl does."""
        text, most = reply.response.text or "", self.max_tool_response_length
        if len(text) <= most:
            return reply
        if self.tool_response_truncate_side == "left":
            text = "(truncated)..." + text[-most:]
        elif self.tool_response_truncate_side == "right":
            text = text[:most] + "...(truncated)"
        else:
            text = text[: most // 2] + "...(truncated)..." + text[-(most // 2) :]
        reply.response.text = text
        outcome: Outcome = "cut" if reply.outcome == "ok" else reply.outcome
        return _Reply(outcome, reply.response, reply.reward, reply.numbers)

    def _not_executed(self, turns: Sequence[Turn]) -> list[Call]:
        """The calls that verl did not execute, without a word to the model."""
        calls = []
        written = [turn.text.count(self._watched.tag) for turn in turns if turn.trained]
        for number, count in enumerate(written, 1):
            if not self._watched.tag:
                continue
            was_read = number <= len(self._watched.counts)
            readable = self._watched.counts[number - 1] if was_read else 0
            missing: Outcome = "malformed" if was_read else "not_run"
            surplus = max(0, readable - self.max_parallel_calls)
            calls += [Call(number, "", "", missing)] * (count - readable)
            calls += [Call(number, "", "", "not_run")] * surplus
        return calls

    def _end(self, turns: Sequence[Turn], *, is_full: bool) -> End:
        counts = self._watched.counts
        if is_full or (counts and counts[-1] > 0 and len(counts) == _trained(turns)):
            return "length"  # The reply to the last call did not fit.
        if len(counts) < _trained(turns):
            return "turn_limit"
        written = [turn.text for turn in turns if turn.trained][-1:]
        has_call = bool(self._watched.tag) and any(self._watched.tag in text for text in written)
        return "malformed" if has_call else "answer"


class _WatchedParser(ToolParser):
    """A parser that keeps how many calls each turn had. ``tag`` begins a call."""

    def __init__(self, parser: ToolParser) -> None:
        super().__init__(parser.tokenizer)
        self._parser = parser
        tags = (getattr(parser, name, "") for name in _START_TAGS)
        self.tag = next((str(tag) for tag in tags if tag), "")
        self.counts: list[int] = []

    @property
    def stop_token_ids(self) -> list[int]:
        return list(self._parser.stop_token_ids)

    async def extract_tool_calls(
        self, responses_ids: list[int], tools: Any = None
    ) -> tuple[str, list[Any]]:
        content, calls = await self._parser.extract_tool_calls(responses_ids, tools)
        self.counts.append(len(calls))
        return content, calls


@dataclass(frozen=True)
class _Reply:
    """What the model reads after a call, and verl's reward and numbers of a tool."""

    outcome: Outcome
    response: ToolResponse
    reward: float
    numbers: Any

    @classmethod
    def of_error(cls, outcome: Outcome, text: str) -> _Reply:
        return cls(outcome, ToolResponse(text=_encodable(text)), 0.0, {})


def _refused(name: str, arguments: str, tools: Mapping[str, Any]) -> _Reply | None:
    """Why a call cannot be executed; None if it can."""
    if name not in tools:
        text = f"Unknown function '{name}'. Available tools: {list(tools)}"
        return _Reply.of_error("unknown_tool", text)
    schema = tools[name].tool_schema.model_dump(exclude_unset=True, exclude_none=True)
    parameters = schema["function"].get("parameters", {"type": "object"})
    try:
        values = json.loads(arguments)
        problem: str | None = "expected an object"
        if isinstance(values, dict):
            problem = find_problem(json.dumps(parameters), _stated(values, parameters))
    except (ValueError, RecursionError) as error:
        problem = str(error)
    if problem is None:
        return None
    return _Reply.of_error("bad_arguments", f"Invalid arguments for '{name}': {problem}")


def _stated(values: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Without null for an optional parameter: verl's schema does not say of ``str | None`` that it
    takes null."""
    required = parameters.get("required", ())
    return {name: value for name, value in values.items() if value is not None or name in required}


async def _execute(
    tool: Any, arguments: dict[str, Any], options: Mapping[str, Any], agent_data: Any
) -> tuple[ToolResponse, float, dict[str, Any]]:
    """Call a function, or a tool of verl's class with its life cycle."""
    if isinstance(tool, FunctionTool):
        work = tool.fn(**arguments) if tool.is_async else _in_thread(tool.fn, arguments)
        response, reward, numbers = normalize_function_tool_return(await work)
        return response, reward, numbers
    instance, _ = await tool.create(create_kwargs=options.get("create_kwargs", {}))
    try:
        response, reward, numbers = await tool.execute(instance, arguments, agent_data=agent_data)
    finally:
        await tool.release(instance)
    if not isinstance(response, ToolResponse):
        raise TypeError(f"execute() returned {type(response).__name__}, not ToolResponse")
    return response, reward, numbers


async def _limited(name: str, work: Coroutine[Any, Any, Any], limit_s: float) -> _Reply:
    """The reply of a tool, or the error that the model reads instead."""
    task = asyncio.ensure_future(_attempt(name, work))
    done, _ = await asyncio.wait({task}, timeout=limit_s)
    if done:
        return task.result()
    task.cancel()
    text = f"Error executing tool '{name}': no reply within {limit_s:g} s"
    return _Reply.of_error("timed_out", text)


async def _attempt(name: str, work: Coroutine[Any, Any, Any]) -> _Reply:
    """Whatever a tool raises is its failure: SystemExit would end the event loop, and
    CancelledError the rollout."""
    try:
        response, reward, numbers = await work
    except BaseException as error:
        return _Reply.of_error("failed", f"Error executing tool '{name}': {_message(error)}")
    response.text = response.text and _encodable(response.text)
    return _Reply("ok", response, reward, numbers)


def _encodable(text: str) -> str:
    """Text without surrogates, which neither tokenizers nor files take: JSON can escape one half
    of a pair, and Python reads them from file names that are no UTF-8."""
    return text.encode(errors="replace").decode()


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # The tool's own class may fail at that, too.
        return type(error).__name__


async def _in_thread(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function in a thread of its own.

    A call that hangs keeps its thread until the process ends; in asyncio's pool, which has few
    threads and also renders prompts, some of them would stop the run.
    """
    loop = asyncio.get_running_loop()
    # An error is a value here: a future takes no StopIteration.
    result: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not result.done():
            result.set_result((value, error))

    def call() -> None:
        value, error = None, None
        try:
            value = function(**arguments)
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # After the time limit, the loop may be closed.
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=call, name="tool", daemon=True).start()
    value, error = await result
    if error is not None:
        raise error
    return value


def split_turns(
    decode: Callable[[list[int]], str], tokens: Sequence[int], mask: Sequence[int]
) -> list[Turn]:
    """The turns of a response: ``tokens`` and ``mask``, 1 for generated ones, both ``[length]``."""
    turns = []
    for trained, run in groupby(zip(tokens, mask, strict=True), key=lambda pair: bool(pair[1])):
        ids = [int(token) for token, _ in run]
        turns.append(Turn(decode(ids), len(ids), trained))
    return turns


def _trained(turns: Sequence[Turn]) -> int:
    return sum(turn.trained for turn in turns)
