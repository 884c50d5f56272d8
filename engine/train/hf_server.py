"""The ``hf`` rollout server: a Ray actor that generates with HF transformers, on CPU or CUDA.

verl's agent loop calls ``generate`` once per rollout; the rollouts of a step run as one batch, so
that a resumed run repeats it bit by bit. The other methods are the control surface verl expects of
any rollout server.
"""

from __future__ import annotations

import asyncio
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from engine.train.generation import Generated, Request, Sampling, generate


class RowSeeds:
    """One seed per request: of run seed, step of the weights, prompt, and how often it came before.

    The rollouts of one prompt are interchangeable: which of them gets which seed follows the order
    of their requests, the set of seeds does not.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.step = 0
        self._came: Counter[bytes] = Counter()

    def start_step(self, step: int) -> None:
        """New weights: every prompt counts from its first rollout again."""
        self.step = step
        self._came.clear()

    def next(self, prompt: Sequence[int]) -> int:
        """The seed of one more rollout of ``prompt``, 0 <= seed < 2**63."""
        tokens = array("q", prompt).tobytes()
        occurrence = self._came[tokens]
        self._came[tokens] += 1
        # Python's own hash() is salted differently in every process.
        digest = blake2b(f"{self.seed} {self.step} {occurrence} ".encode() + tokens, digest_size=8)
        return int.from_bytes(digest.digest(), "big") >> 1


# Requests come a few milliseconds apart; where their number is unknown (validation, later turns),
# waiting this long for the next one costs less than generating twice.
QUIET_S = 0.015
# How long to wait for a rollout that the step is known to have; it may have failed on its way.
MISSING_S = 2.0


@dataclass(frozen=True)
class ServerConfig:
    """The settings of the actor: plain values, because they cross a process boundary."""

    model_path: str
    trust_remote_code: bool
    dtype: str
    attention: str
    prompt_length: int
    response_length: int
    max_batch: int
    rollouts_per_step: int
    """Rollouts that a training step requests from this server; 0 if unknown."""
    threads: int | None
    seed: int


@dataclass
class _Waiting:
    request: Request
    answer: asyncio.Future[Generated]


class HFServer:
    """Token-in, token-out generation. One model copy, one generating thread."""

    def __init__(self, config: ServerConfig) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from verl.utils.device import get_device_id

        if config.threads is not None:
            torch.set_num_threads(config.threads)
        self.config = config
        self.device = get_device_id()
        tokenizer = AutoTokenizer.from_pretrained(
            config.model_path, trust_remote_code=config.trust_remote_code
        )
        self.model: Any = AutoModelForCausalLM.from_pretrained(
            config.model_path,
            dtype=getattr(torch, config.dtype),
            attn_implementation=config.attention,
            trust_remote_code=config.trust_remote_code,
        ).eval()
        self.model.to(self.device)
        self.pad_token: int = tokenizer.pad_token_id or 0
        self.stop_tokens = stop_tokens(tokenizer, self.model.generation_config)
        self.global_steps: int | None = None
        self.seeds = RowSeeds(config.seed)
        self.expected = config.rollouts_per_step
        self.waiting: asyncio.Queue[_Waiting] = asyncio.Queue()
        self.thread = ThreadPoolExecutor(1)
        self.batcher: asyncio.Task[None] | None = None

    async def ready(self) -> int:
        """Return the process ID, once the model is loaded."""
        return os.getpid()

    # generation

    async def generate(
        self, prompt_ids: Any, sampling_params: Mapping[str, Any], request_id: str, **_: Any
    ) -> Any:
        """verl's ``TokenOutput`` for one prompt. Errors of the batch reach every caller in it."""
        from verl.utils.tokenizer import normalize_token_ids
        from verl.workers.rollout.replica import TokenOutput

        if self.batcher is None:
            self.batcher = asyncio.create_task(self._batches())
        request = self._request([int(t) for t in normalize_token_ids(prompt_ids)], sampling_params)
        answer: asyncio.Future[Generated] = asyncio.get_running_loop().create_future()
        await self.waiting.put(_Waiting(request, answer))
        done = await answer
        return TokenOutput(
            token_ids=done.tokens,
            log_probs=done.log_probs if sampling_params.get("logprobs") else None,
            stop_reason="completed",
            extra_fields={"global_steps": self.global_steps, "num_cached_tokens": 0},
        )

    def _request(self, prompt: list[int], params: Mapping[str, Any]) -> Request:
        budget = params.get("max_tokens") or params.get("max_new_tokens")
        if budget is None:
            room = self.config.prompt_length + self.config.response_length - len(prompt)
            budget = min(self.config.response_length, room)
        sampling = Sampling(
            temperature=float(params.get("temperature", 1.0)),
            top_p=float(params.get("top_p", 1.0)),
            top_k=int(params.get("top_k", -1)),
            repetition_penalty=float(params.get("repetition_penalty", 1.0)),
        )
        return Request(prompt, max(1, int(budget)), sampling, self.seeds.next(prompt))

    async def _batches(self) -> None:
        while True:
            by_sampling: dict[Sampling, list[_Waiting]] = {}
            for item in await self._arrived():
                by_sampling.setdefault(item.request.sampling, []).append(item)
            for items in by_sampling.values():
                for batch in batched(items, self.config.max_batch):
                    await self._answer(batch)

    async def _arrived(self) -> list[_Waiting]:
        """The requests that arrived together, in an order that does not depend on arrival.

        The rollouts of a training step are waited for. Validation, greedy unless a config says
        otherwise, and later turns of a conversation come in unknown numbers.
        """
        items = [await self.waiting.get()]
        awaited = self.expected if items[0].request.sampling.temperature > 0 else 0
        while len(items) != awaited:
            patience = MISSING_S if len(items) < awaited else QUIET_S
            try:
                items.append(await asyncio.wait_for(self.waiting.get(), patience))
            except TimeoutError:
                break
        if awaited:
            self.expected = 0
        return sorted(items, key=lambda item: _sort_key(item.request))

    async def _answer(self, items: Sequence[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(
                self.thread, self._generate, [item.request for item in items]
            )
        except Exception as error:
            for item in items:
                if not item.answer.done():
                    item.answer.set_exception(error)
            return
        for item, result in zip(items, results, strict=True):
            if not item.answer.done():
                item.answer.set_result(result)

    def _generate(self, requests: list[Request]) -> list[Generated]:
        return generate(self.model, requests, self.stop_tokens, self.pad_token)

    # weights

    async def load_weights(self, state: Mapping[str, Any], global_steps: int | None) -> None:
        """Replace the full weights. Raises when the trainer sends a name the model lacks."""
        await self.wake_up()
        missing, unexpected = self.model.load_state_dict(state, strict=False)
        del missing  # tied weights are sent once
        if unexpected:
            raise ValueError(f"weights the rollout model does not have: {sorted(unexpected)[:3]}")
        self._set_version(global_steps)

    async def load_adapter(
        self, state: Mapping[str, Any], peft_config: dict[str, Any], global_steps: int | None
    ) -> None:
        """Replace the LoRA adapter; the first call wraps the base model.

        RuntimeError for an adapter without weights: the rollouts would stay the base model's.
        """
        from peft import PeftConfig, get_peft_model, set_peft_model_state_dict

        if not state:
            raise RuntimeError("no LoRA adapter to load: the trainer sent one without weights")
        await self.wake_up()
        if not hasattr(self.model, "peft_config"):
            config = PeftConfig.from_peft_type(**peft_config)
            self.model = get_peft_model(self.model, config).eval()
        set_peft_model_state_dict(self.model, dict(state))
        self._set_version(global_steps)

    def _set_version(self, global_steps: int | None) -> None:
        if global_steps is not None and global_steps != self.global_steps:
            self.global_steps = global_steps
            self.seeds.start_step(global_steps)
            self.expected = self.config.rollouts_per_step

    # control surface of a verl rollout server

    async def set_global_steps(self, global_steps: int) -> None:
        self._set_version(global_steps)

    async def sleep(self) -> None:
        """Give the accelerator's memory to the trainer."""
        self.model.to("cpu")

    async def wake_up(self, tags: list[str] | None = None) -> None:
        self.model.to(self.device)

    async def abort_all_requests(self, **_: Any) -> dict[str, Any]:
        return {"aborted_count": 0, "request_ids": []}

    async def clear_kv_cache(self) -> None: ...

    async def release_kv_cache(self) -> None: ...

    async def resume_kv_cache(self) -> None: ...

    async def resume_generation(self) -> None: ...

    async def start_profile(self, **_: Any) -> None: ...

    async def stop_profile(self) -> None: ...


def _sort_key(request: Request) -> tuple[int, list[int], int]:
    """Order the requests of a batch by length, then by content."""
    return len(request.prompt), request.prompt, request.seed


def batched(items: Sequence[_Waiting], size: int) -> Iterator[Sequence[_Waiting]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def stop_tokens(tokenizer: Any, generation_config: Any) -> list[int]:
    """Return every end-of-sequence ID: the tokenizer's and those of the generation config."""
    configured = getattr(generation_config, "eos_token_id", None)
    others = configured if isinstance(configured, list) else [configured]
    tokens = [tokenizer.eos_token_id, *others]
    return sorted({int(token) for token in tokens if token is not None})
