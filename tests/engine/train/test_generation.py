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
    logits: torch.Tensor = model(torch.tensor([prompt + tokens])).logits
    return logits[0, len(prompt) - 1 : -1].float()


def test_greedy_takes_the_most_likely_token_each_time(model: Any) -> None:
    for prompt, done in zip(
        PROMPTS, generate(model, [Request(p, 12, GREEDY) for p in PROMPTS], [], PAD), strict=True
    ):
        assert done.tokens == whole_forward(model, prompt, done.tokens).argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_log_probs_equal_those_of_a_forward_pass(model: Any, temperature: float) -> None:
    sampling = Sampling(temperature=temperature)
    requests = [Request(prompt, 12, sampling, seed) for seed, prompt in enumerate(PROMPTS)]
    for prompt, done in zip(PROMPTS, generate(model, requests, [], PAD), strict=True):
        expected = (whole_forward(model, prompt, done.tokens) / temperature).log_softmax(-1)
        picked = expected.gather(-1, torch.tensor(done.tokens)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(done.log_probs), picked, atol=1e-5, rtol=0)


@pytest.mark.row("A10")
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


SAMPLED = [Request(prompt, 6, seed=seed) for seed, prompt in enumerate(PROMPTS)]


def test_sampling_repeats_itself(model: Any) -> None:
    torch.manual_seed(0)
    first = generate(model, SAMPLED, [], PAD)
    torch.manual_seed(1)
    assert generate(model, SAMPLED, [], PAD) == first


def test_a_sampled_sequence_does_not_depend_on_its_neighbours(model: Any) -> None:
    together = [done.tokens for done in generate(model, SAMPLED, [], PAD)]
    assert [generate(model, [one], [], PAD)[0].tokens for one in SAMPLED] == together
    longer = Request(PROMPTS[1], 20, seed=9)
    assert [done.tokens for done in generate(model, [*SAMPLED, longer], [], PAD)[:3]] == together
    reverse = [done.tokens for done in generate(model, SAMPLED[::-1], [], PAD)]
    assert reverse[::-1] == together


def test_the_rollouts_of_a_prompt_differ_by_their_seeds(model: Any) -> None:
    requests = [Request(PROMPTS[0], 8, seed=seed) for seed in range(8)]
    assert len({tuple(done.tokens) for done in generate(model, requests, [], PAD)}) == 8


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.3),
        Sampling(top_k=5),
        Sampling(top_p=0.3),
        Sampling(temperature=0.3, top_k=20, top_p=0.7),
    ],
    ids=str,
)
def test_tokens_come_up_as_often_as_they_are_likely(model: Any, sampling: Sampling) -> None:
    draws = 4000
    logits = whole_forward(model, PROMPTS[0], [0])
    expected = log_distribution(logits, sampling, torch.zeros(1, 1).long()).exp()[0]
    requests = [Request(PROMPTS[0], 1, sampling, seed) for seed in range(draws)]
    drawn = [done.tokens[0] for done in generate(model, requests, [], PAD)]
    result = torch.bincount(torch.tensor(drawn), minlength=len(expected)) / draws
    assert not result[expected == 0].any()
    # Five standard deviations of a binomial share; the seeds are fixed, so this never flickers.
    assert bool(((result - expected).abs() <= 5 * (expected / draws).sqrt() + 1e-3).all())


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


@pytest.mark.row("A10")
def test_top_k_keeps_that_many_tokens() -> None:
    kept = log_distribution(
        torch.tensor([[1.0, 4.0, 3.0, 2.0]]), Sampling(top_k=2), torch.zeros(1, 1).long()
    )
    assert torch.isfinite(kept).tolist() == [[False, True, True, False]]


@pytest.mark.row("A10")
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
