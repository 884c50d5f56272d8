"""Tokens drawn by the HF rollout, and the log-probabilities reported with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from engine.train.generation import Request, Sampling, generate, log_distribution
from tests.engine.train.conftest import SmallWorld

GREEDY = Sampling(temperature=0.0)
PROMPTS = ([5, 6, 7, 8], [9, 10], [11, 12, 13, 14, 15, 16, 17])
PAD = 0


@pytest.fixture(scope="module")
def model(world: SmallWorld) -> Any:
    return AutoModelForCausalLM.from_pretrained(world.model).eval()


@torch.no_grad()
def whole_forward(model: Any, prompt: list[int], tokens: list[int]) -> torch.Tensor:
    """Logits that predict ``tokens``, from one forward pass without cache or padding."""
    return model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1].float()


def test_greedy_takes_the_most_likely_token_each_time(model: Any) -> None:
    for prompt, done in zip(
        PROMPTS, generate(model, [Request(p, 12, GREEDY) for p in PROMPTS], [], PAD), strict=True
    ):
        assert done.tokens == whole_forward(model, prompt, done.tokens).argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_log_probs_equal_those_of_a_forward_pass(model: Any, temperature: float) -> None:
    torch.manual_seed(3)
    requests = [Request(prompt, 12, Sampling(temperature=temperature)) for prompt in PROMPTS]
    for prompt, done in zip(PROMPTS, generate(model, requests, [], PAD), strict=True):
        expected = (whole_forward(model, prompt, done.tokens) / temperature).log_softmax(-1)
        picked = expected.gather(-1, torch.tensor(done.tokens)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(done.log_probs), picked, atol=1e-5, rtol=0)


def test_every_request_keeps_its_own_budget(model: Any) -> None:
    requests = [Request(prompt, budget) for prompt, budget in zip(PROMPTS, (1, 5, 3), strict=True)]
    assert [len(done.tokens) for done in generate(model, requests, [], PAD)] == [1, 5, 3]


def test_a_stop_token_ends_a_sequence_and_belongs_to_it(model: Any) -> None:
    free = generate(model, [Request(PROMPTS[0], 8, GREEDY)], [], PAD)[0]
    stop = free.tokens[2]
    stopped = generate(model, [Request(PROMPTS[0], 8, GREEDY)], [stop], PAD)[0]
    assert stopped.tokens == free.tokens[: free.tokens.index(stop) + 1]


def test_a_sequence_does_not_depend_on_its_neighbours(model: Any) -> None:
    alone = [generate(model, [Request(prompt, 6, GREEDY)], [], PAD)[0] for prompt in PROMPTS]
    together = generate(model, [Request(prompt, 6, GREEDY) for prompt in PROMPTS], [], PAD)
    assert [done.tokens for done in together] == [done.tokens for done in alone]


@settings(max_examples=30, deadline=None)
@given(
    logits=st.lists(st.floats(-8, 8, width=32), min_size=4, max_size=12),
    top_k=st.integers(1, 4),
    top_p=st.floats(0.1, 1.0),
)
def test_a_restricted_distribution_still_sums_to_one(
    logits: list[float], top_k: int, top_p: float
) -> None:
    kept = log_distribution(
        torch.tensor([logits]), Sampling(top_k=top_k, top_p=top_p), torch.zeros(1, 1).long()
    )
    assert kept.exp().sum().item() == pytest.approx(1.0, abs=1e-5)
    assert kept.argmax(-1).item() == torch.tensor(logits).argmax().item()


def test_top_k_keeps_that_many_tokens() -> None:
    kept = log_distribution(
        torch.tensor([[1.0, 4.0, 3.0, 2.0]]), Sampling(top_k=2), torch.zeros(1, 1).long()
    )
    assert torch.isfinite(kept).tolist() == [[False, True, True, False]]


def test_top_p_keeps_the_fewest_tokens_that_reach_it() -> None:
    probabilities = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
    kept = log_distribution(probabilities.log(), Sampling(top_p=0.7), torch.zeros(1, 1).long())
    assert torch.isfinite(kept).tolist() == [[True, True, False, False]]


def test_a_repetition_penalty_lowers_tokens_already_seen() -> None:
    logits = torch.tensor([[2.0, 2.0, -1.0]])
    penalised = Sampling(repetition_penalty=2.0)
    kept = log_distribution(logits, penalised, torch.tensor([[0, 2]]))
    assert kept.argmax(-1).item() == 1
    assert kept[0, 2] < kept[0, 0]
