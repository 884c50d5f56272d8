"""Every rollout has its own random numbers, the same in every run of the same config."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from engine.train.hf_server import RowSeeds

PROMPT = [5, 6, 7]


def at_step(step: int, seed: int = 1) -> RowSeeds:
    seeds = RowSeeds(seed)
    seeds.start_step(step)
    return seeds


@given(st.permutations([[1], [1], [1], [2, 3], [2, 3], [4]]))
def test_the_order_of_requests_does_not_change_the_seeds_of_a_prompt(
    order: list[list[int]],
) -> None:
    drawn: dict[tuple[int, ...], set[int]] = {}
    seeds, again = at_step(3), at_step(3)
    for prompt in order:
        drawn.setdefault(tuple(prompt), set()).add(seeds.next(prompt))
    for prompt in sorted(order):
        assert again.next(prompt) in drawn[tuple(prompt)]


def test_the_rollouts_of_a_prompt_differ() -> None:
    seeds = at_step(3)
    assert len({seeds.next(PROMPT) for _ in range(64)}) == 64


def test_another_run_seed_step_or_prompt_gives_other_seeds() -> None:
    others = [at_step(3, seed=2).next(PROMPT), at_step(4).next(PROMPT), at_step(3).next([5, 6])]
    assert len({at_step(3).next(PROMPT), *others}) == 4


def test_new_weights_count_from_the_first_rollout_again() -> None:
    seeds = at_step(3)
    first = seeds.next(PROMPT)
    seeds.start_step(4)
    seeds.start_step(3)
    assert seeds.next(PROMPT) == first


def test_another_process_draws_the_same_seed() -> None:
    code = (
        "from engine.train.hf_server import RowSeeds; s = RowSeeds(1); s.start_step(3);"
        f"print(s.next({PROMPT}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(out.stdout) == at_step(3).next(PROMPT)
