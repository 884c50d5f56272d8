"""The rollout server: what a step's rollouts are does not depend on how they were asked for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from engine.train import cpu_platform, hf_server
from engine.train.hf_server import HFServer, ServerConfig
from tests.engine.train.conftest import SmallWorld

PROMPTS = [[5, 6, 7, 8], [9, 10], [11, 12, 13, 14, 15, 16, 17]]
STEP = [prompt for prompt in PROMPTS for _ in range(4)]
SAMPLED = {"temperature": 1.0, "logprobs": True}


@pytest.fixture(scope="module")
def make_server(world: SmallWorld) -> Any:
    # Registered on import; whoever ran before in this process may have chosen it already.
    assert cpu_platform.PlatformCPU is not None

    def make(seed: int = 1, max_batch: int = 64, rollouts: int = len(STEP)) -> HFServer:
        config = ServerConfig(
            model_path=str(world.model),
            trust_remote_code=False,
            dtype="float32",
            attention="sdpa",
            prompt_length=16,
            response_length=8,
            max_batch=max_batch,
            rollouts_per_step=rollouts,
            threads=None,
            seed=seed,
        )
        return HFServer(config)

    return make


Rollout = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]


def rollouts_of(
    server: HFServer, prompts: Sequence[list[int]], step: int = 3, gap_s: float = 0.0
) -> list[Rollout]:
    """Prompt, tokens and log-probabilities of each, sorted; asked for ``gap_s`` apart."""

    async def one(place: int, prompt: list[int]) -> Rollout:
        await asyncio.sleep(place * gap_s)
        done = await server.generate(prompt, SAMPLED, request_id=str(place))
        return tuple(prompt), tuple(done.token_ids), tuple(done.log_probs)

    async def all_of_them() -> list[Rollout]:
        await server.set_global_steps(step)
        tasks = [one(place, prompt) for place, prompt in enumerate(prompts)]
        result = sorted(await asyncio.gather(*tasks))
        assert server.batcher is not None
        server.batcher.cancel()
        return result

    return asyncio.run(all_of_them())


def test_the_order_of_requests_changes_nothing_not_even_the_last_bit(make_server: Any) -> None:
    expected = rollouts_of(make_server(), STEP)
    for shuffle in range(3):
        mixed = random.Random(shuffle).sample(STEP, len(STEP))
        assert rollouts_of(make_server(), mixed) == expected


def test_requests_that_come_late_are_waited_for(
    make_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hf_server, "MISSING_S", 300.0)  # However slow this machine is.
    expected = rollouts_of(make_server(), STEP)
    assert rollouts_of(make_server(), STEP, gap_s=2 * hf_server.QUIET_S) == expected


def test_more_rollouts_than_a_batch_holds_are_split_the_same_way(make_server: Any) -> None:
    expected = rollouts_of(make_server(max_batch=5), STEP)
    assert rollouts_of(make_server(max_batch=5), STEP[::-1]) == expected


def test_another_seed_and_another_step_give_other_rollouts(make_server: Any) -> None:
    first = rollouts_of(make_server(), STEP)
    assert rollouts_of(make_server(seed=2), STEP) != first
    assert rollouts_of(make_server(), STEP, step=4) != first


def test_the_rollouts_of_a_prompt_differ(make_server: Any) -> None:
    result = rollouts_of(make_server(), STEP)
    assert len({tokens for _, tokens, _ in result}) > len(PROMPTS)


def test_a_rollout_that_never_comes_does_not_hold_up_the_others(
    make_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hf_server, "MISSING_S", 0.05)
    assert len(rollouts_of(make_server(), STEP[:-1])) == len(STEP) - 1


def test_an_unknown_number_of_rollouts_is_generated_all_the_same(make_server: Any) -> None:
    assert len(rollouts_of(make_server(rollouts=0), STEP)) == len(STEP)
