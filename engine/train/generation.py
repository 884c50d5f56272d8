"""Token sampling with a HF causal model: a left-padded batch in, new tokens and log-probs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

NEVER = float("-inf")


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn. ``temperature`` 0 is greedy; ``top_k`` -1 and ``top_p`` 1 are off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    repetition_penalty: float = 1.0


@dataclass(frozen=True)
class Request:
    """One sequence to continue by at most ``budget`` tokens (at least 1).

    ``seed`` alone decides its random numbers: a row is drawn the same in any batch.
    """

    prompt: list[int]
    budget: int
    sampling: Sampling = Sampling()
    seed: int = 0


@dataclass(frozen=True)
class Generated:
    """New tokens, the stop token included, and the log-probability each was drawn with."""

    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)


def log_distribution(
    logits: torch.Tensor, sampling: Sampling, before: torch.Tensor
) -> torch.Tensor:
    """Log-probabilities ``[batch, vocab]`` after penalty, temperature, top-k and top-p.

    ``logits`` is ``[batch, vocab]`` in float32, ``before`` the token IDs ``[batch, length]``.
    Greedy log-probabilities are those of the untempered model, as vLLM reports them.
    """
    if sampling.repetition_penalty != 1.0:
        logits = _penalize(logits, before, sampling.repetition_penalty)
    if sampling.temperature > 0:
        logits = logits / sampling.temperature
        logits = _keep_top_k(logits, sampling.top_k)
        logits = _keep_top_p(logits, sampling.top_p)
    return logits.log_softmax(-1)


def _penalize(logits: torch.Tensor, before: torch.Tensor, penalty: float) -> torch.Tensor:
    """Keskar et al. 2019: divide positive, multiply negative logits of earlier tokens."""
    scores = logits.gather(-1, before)
    scores = torch.where(scores < 0, scores * penalty, scores / penalty)
    return logits.scatter(-1, before, scores)


def _keep_top_k(logits: torch.Tensor, top_k: int) -> torch.Tensor:
    if top_k <= 0 or top_k >= logits.size(-1):
        return logits
    threshold = logits.topk(top_k, dim=-1).values[:, -1:]
    return logits.masked_fill(logits < threshold, NEVER)


def _keep_top_p(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Holtzman et al. 2020: keep the fewest tokens whose probabilities sum to ``top_p``."""
    if top_p >= 1.0:
        return logits
    ordered, index = logits.sort(dim=-1, descending=True)
    probability = ordered.softmax(-1)
    beyond = probability.cumsum(-1) - probability > top_p
    return logits.masked_fill(torch.zeros_like(beyond).scatter(-1, index, beyond), NEVER)


@torch.inference_mode()
def generate(
    model: Any, requests: Sequence[Request], stop_tokens: Sequence[int], pad_token: int
) -> list[Generated]:
    """Continue every request until a stop token or its budget. All share one ``Sampling``.

    The batch runs as one left-padded block with a KV cache. Rows that are done keep their place:
    dropping them would copy the cache, which costs more than it saves at these sizes.
    """
    block = _Block(model, requests, pad_token)
    stops = torch.tensor(list(stop_tokens), device=block.device)
    budgets = torch.tensor([request.budget for request in requests], device=block.device)
    done = torch.zeros(len(requests), dtype=torch.bool, device=block.device)
    lengths = torch.zeros_like(budgets)
    drawn: list[tuple[torch.Tensor, torch.Tensor]] = []
    for step in range(1, int(budgets.max()) + 1):
        drawn.append(block.draw(step))
        lengths += ~done
        done |= torch.isin(drawn[-1][0][:, 0], stops) | (budgets <= step)
        if bool(done.all()):
            break
    tokens, log_probs = (torch.cat(parts, -1) for parts in zip(*drawn, strict=True))
    rows = zip(tokens.tolist(), log_probs.tolist(), lengths.tolist(), strict=True)
    return [Generated(row[:length], probs[:length]) for row, probs, length in rows]


class _Block:
    """The rows of a batch as far as they have been drawn; all have the same length."""

    def __init__(self, model: Any, requests: Sequence[Request], pad_token: int) -> None:
        self.device = next(model.parameters()).device
        self._model, self._sampling = model, requests[0].sampling
        self._numbers = _random_numbers(requests).to(self.device)
        prompts = [request.prompt for request in requests]
        self._inputs, self._mask = _left_padded(prompts, pad_token, self.device)
        self._positions = (self._mask.cumsum(-1) - 1).clamp(min=0)
        self._padded = not bool(self._mask.all())
        self._before = self._inputs
        self._cache: Any = None

    def draw(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The ``step``-th new token of every row and its log-probability, both ``[batch, 1]``."""
        if step > 1:
            self._extend()
        output = self._model(
            input_ids=self._inputs,
            attention_mask=self._mask if self._padded else None,
            position_ids=self._positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self._cache = output.past_key_values
        distribution = log_distribution(output.logits[:, -1].float(), self._sampling, self._before)
        numbers = self._numbers[:, step - 1]
        self._inputs = _draw(distribution, self._sampling.temperature, numbers)
        return self._inputs, distribution.gather(-1, self._inputs)

    def _extend(self) -> None:
        """Append the tokens drawn last; only a repetition penalty needs the earlier ones."""
        self._positions = self._positions[:, -1:] + 1
        if self._padded:
            self._mask = torch.cat([self._mask, torch.ones_like(self._inputs)], dim=-1)
        if self._sampling.repetition_penalty != 1.0:
            self._before = torch.cat([self._before, self._inputs], dim=-1)


def _left_padded(
    prompts: Sequence[list[int]], pad_token: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, both ``[batch, longest]`` int64."""
    longest = max(len(prompt) for prompt in prompts)
    gaps = [longest - len(prompt) for prompt in prompts]
    ids = [[pad_token] * gap + prompt for gap, prompt in zip(gaps, prompts, strict=True)]
    mask = [[0] * gap + [1] * (longest - gap) for gap in gaps]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _random_numbers(requests: Sequence[Request]) -> torch.Tensor:
    """Uniform in [0, 1), ``[batch, largest budget]`` in float64; each row from its own seed."""
    numbers = torch.zeros(len(requests), max(request.budget for request in requests))
    generator = torch.Generator()
    for row, request in zip(numbers, requests, strict=True):
        row[: request.budget].uniform_(generator=generator.manual_seed(request.seed))
    return numbers.double()


def _draw(distribution: torch.Tensor, temperature: float, numbers: torch.Tensor) -> torch.Tensor:
    """Next token per row, ``[batch, 1]``: the inverse cumulative distribution at ``numbers``.

    The numbers are multiples of 2**-24, so in float64 none reaches the total, and a token of
    probability 0 is never the first to exceed one.
    """
    if temperature <= 0:
        return distribution.argmax(-1, keepdim=True)
    cumulative = distribution.double().exp().cumsum(-1)
    return torch.searchsorted(cumulative, numbers[:, None] * cumulative[:, -1:], right=True)
