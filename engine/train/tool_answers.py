"""Answers of an evaluation that may call tools: the agent loop of training, without Ray."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.base.typed import convert_record
from engine.run.conversation import FIELD, Conversation
from engine.train import environment
from engine.train.backends import Backend, Prompt
from engine.train.generation import Generated, Request


@dataclass(frozen=True)
class ToolAnswer:
    """``generated`` is all that the model wrote; ``text`` is what is scored."""

    generated: int
    text: str
    stopped: bool
    conversation: Conversation


def answer_with_tools(
    backend: Backend, prompts: Sequence[Prompt], request: Request, tools: Mapping[str, Any]
) -> list[ToolAnswer]:
    """The conversations of ``prompts``, side by side.

    ``tools``: verl's ``config``, the ``device``, and ``scores_all_turns``. ``request`` has budget
    and sampling of every turn.
    """
    environment.prepare(os.environ, str(tools["device"]))  # verl reads its platform when imported.
    rollout = tools["config"]["actor_rollout_ref"]["rollout"]
    longest = int(rollout["prompt_length"]) + int(rollout["response_length"])
    server = _Waves(backend, request, len(prompts), longest)
    return asyncio.run(_converse_all(backend, prompts, server, tools))


async def _converse_all(
    backend: Backend, prompts: Sequence[Prompt], server: _Waves, tools: Mapping[str, Any]
) -> list[ToolAnswer]:
    loops = _make_loops(backend, server, tools, len(prompts))

    async def converse(loop: Any, prompt: Prompt) -> ToolAnswer:
        server.seeds[prompt.key] = prompt.seed
        try:
            output = await loop.run(
                {"prompt_key": prompt.key},
                raw_prompt=list(prompt.messages),
                extra_info=prompt.extra_info,
                tools_kwargs=prompt.extra_info.get("tools_kwargs"),
            )
        finally:
            server.leave()
        return _answer(backend, output, whole=bool(tools["scores_all_turns"]))

    return list(await asyncio.gather(*map(converse, loops, prompts)))


def _answer(backend: Backend, output: Any, *, whole: bool) -> ToolAnswer:
    conversation = convert_record(output.extra_fields[FIELD], Conversation)
    assert conversation is not None
    tokens = list(output.response_ids)
    scored = tokens if whole else tokens[conversation.last_answer()]
    return ToolAnswer(
        sum(output.response_mask),
        backend.tokenizer.decode(scored, skip_special_tokens=True),
        conversation.end == "answer" and bool(tokens) and tokens[-1] in backend.stops,
        conversation,
    )


def _make_loops(
    backend: Backend, server: _Waves, tools: Mapping[str, Any], count: int
) -> list[Any]:
    from omegaconf import OmegaConf
    from verl.tools.tool_registry import load_all_tools

    from engine.train.tool_loop import ToolLoop, make_loop

    config = OmegaConf.create(tools["config"])
    multi_turn = config.actor_rollout_ref.rollout.multi_turn
    declared = load_all_tools(multi_turn.tool_config_path, multi_turn.function_tool_path)
    about = (config, server, backend.tokenizer, backend.model_type, declared)
    return [make_loop(ToolLoop, *about) for _ in range(count)]


class _Waves:
    """Generates once all open conversations ask for a turn, so that their batches repeat."""

    def __init__(
        self, backend: Backend, request: Request, conversations: int, longest: int
    ) -> None:
        """``longest``: tokens of a prompt with its response."""
        self._backend, self._request, self._open = backend, request, conversations
        self._longest = longest
        self._waiting: list[tuple[Request, asyncio.Future[Generated]]] = []
        self.seeds: dict[str, int] = {}

    async def generate(
        self, prompt_ids: list[int], sampling_params: Mapping[str, Any], **_: Any
    ) -> Any:
        """verl's ``TokenOutput`` of one turn."""
        from verl.workers.rollout.replica import TokenOutput

        answer: asyncio.Future[Generated] = asyncio.get_running_loop().create_future()
        seed = _turn_seed(self.seeds[sampling_params["prompt_key"]], len(prompt_ids))
        budget = max(1, min(self._request.budget, self._longest - len(prompt_ids)))
        turn = replace(self._request, prompt=prompt_ids, budget=budget, seed=seed)
        self._waiting.append((turn, answer))
        self._generate_if_all_wait()
        made = await answer
        return TokenOutput(token_ids=made.tokens, extra_fields={"global_steps": 0})

    def leave(self) -> None:
        """A conversation has ended."""
        self._open -= 1
        self._generate_if_all_wait()

    def _generate_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self._open:
            return
        # Prompts of similar length are beside each other: padding costs as much as tokens do.
        waiting = sorted(self._waiting, key=lambda item: (len(item[0].prompt), item[0].seed))
        self._waiting = []
        made = self._backend.generate([request for request, _ in waiting])
        for (_, answer), generated in zip(waiting, made, strict=True):
            answer.set_result(generated)


def _turn_seed(seed: int, length: int) -> int:
    """Other random numbers for each turn: a later one has more tokens before it."""
    digest = hashlib.sha256(f"{seed} {length}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
