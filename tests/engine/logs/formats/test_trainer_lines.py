"""The lines of OpenRLHF, torchtune, prime-rl, NeMo-RL and open-instruct: their names and steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.logs.formats.consoles import NemoRl, OpenInstruct, OpenRlhf, PrimeRl, Slime, Torchtune
from engine.logs.formats.format import Parser
from engine.run.history.train_log import Metrics
from tests.engine.logs.formats.samples import (
    nemo_rl,
    open_instruct,
    openrlhf,
    openrlhf_bar,
    prime_rl,
    torchtune,
)


def feed(parser: Parser, *lines: str) -> list[tuple[int, Metrics]]:
    steps = parser.feed([line.encode() for line in lines])
    return [(step.step, dict(step.metrics)) for step in steps]


def test_openrlhf_prints_a_dict_per_global_step() -> None:
    values = {"policy_loss": 0.5, "actor_lr": 1e-06, "reward": "np.float64(0.25)", "kl": "nan"}
    assert feed(OpenRlhf(), openrlhf(3, values)) == [
        (3, {"actor/pg_loss": 0.5, "actor/lr": 1e-06, "reward/mean": 0.25, "actor/kl_loss": None})
    ]


def test_slime_trains_on_a_rollout_in_several_updates() -> None:
    lead = "(MegatronTrainRayActor pid=3) [2026-01-29 07:00:59] model.py:665 - "
    lines = [
        f"rollout {rollout}: {{'rollout/raw_reward': 0.5, 'rollout/rewards': 0.0}}"
        if update is None
        else f"{lead}step {update}: {{'train/pg_loss': 0.25, 'train/lr-pg_0': 1e-06, "
        f"'train/step': {update}}}"
        for rollout, update in ((0, None), (0, 0), (0, 1), (1, None), (1, 2), (1, 3), (2, None))
    ]
    reward = {"reward/mean": 0.5, "rollout/rewards": 0.0}
    update = {"actor/pg_loss": 0.25, "actor/lr": 1e-06}
    assert feed(Slime(), *lines) == [
        *((0, reward), (0, update), (1, update)),
        *((2, reward), (2, update), (3, update), (4, reward)),
    ]


def test_a_bar_of_openrlhf_counts_steps_through_all_epochs() -> None:
    first = openrlhf_bar(0, 10, 10, "gpt_loss=1.5, lr=9e-06")
    second = openrlhf_bar(1, 1, 10, "gpt_loss=1.25, lr=8e-06")
    assert feed(OpenRlhf(), first, second) == [
        (10, {"train/loss": 1.5, "train/lr": 9e-06}),
        (11, {"train/loss": 1.25, "train/lr": 8e-06}),
    ]


def test_a_bar_of_torchtune_is_drawn_several_times_and_counts_once() -> None:
    bars = [torchtune(1, 0.5), torchtune(1, 0.5), torchtune(2, 0.25)]
    assert feed(Torchtune(), *bars) == [(1, {"train/loss": 0.5}), (2, {"train/loss": 0.25})]


def test_a_line_of_prime_rl_has_names_in_words_and_units() -> None:
    fields = "Loss: 0.5000 | Grad. Norm: 0.1250 | LR: 1.00e-06 | MFU: 12.5% | Peak Mem.: 20.5 GiB"
    assert feed(PrimeRl(), prime_rl(3, fields)) == [
        (
            3,
            {
                "timing_s/step": 12.3,
                "train/loss": 0.5,
                "train/grad_norm": 0.125,
                "train/lr": 1e-06,
                "perf/mfu": 12.5,
                "perf/peak_memory_gib": 20.5,
            },
        )
    ]


def test_the_orchestrator_of_prime_rl_knows_the_rewards() -> None:
    line = prime_rl(3, "Reward: 0.2500 | Val. Reward: 0.5000 | Seq. Length: 45.0 tokens/sample")
    ((_, values),) = feed(PrimeRl(), line)
    assert (values["reward/mean"], values["val/reward"]) == (0.25, 0.5)


def test_nemo_rl_lists_results_and_times_below_a_step() -> None:
    parser = NemoRl()
    assert feed(parser, *nemo_rl(3, 100, 0.5, 0.25)) == [
        (
            3,
            {
                "actor/loss": 0.5,
                "reward/mean": 0.25,
                "response_length/mean": 120.5,
                "timing_s/step": 12.5,
                "timing_s/update_actor": 4.5,
            },
        )
    ]
    assert parser.about().total_steps == 100


def test_a_step_of_nemo_rl_that_comes_in_parts_has_all_values_at_last() -> None:
    parser = NemoRl()
    lines = nemo_rl(3, 100, 0.5, 0.25)
    ((_, early),) = feed(parser, *lines[:5])
    ((_, late),) = feed(parser, *lines[5:])
    assert early.items() <= late.items()


def test_a_validation_of_nemo_rl_is_no_training_result() -> None:
    lines = [*nemo_rl(1, 9, 0.5, 0.25)[:1], "📊 Validation Results:", "    • Accuracy: 0.7500"]
    assert feed(NemoRl(), *lines) == [(1, {"val/reward": 0.75})]


def test_a_frame_of_open_instruct_is_a_step() -> None:
    assert feed(OpenInstruct(), *open_instruct(3, 0.5)) == [
        (
            3,
            {
                "actor/pg_loss": 0.5,
                "loss/kl_avg": 0.01,
                "episode": 24,
                "actor/lr": 1e-06,
                "reward/mean": 0.25,
                "response_length/mean": 120.5,
                "rollouts/stop_rate": 1.0,
            },
        )
    ]


def test_a_frame_without_an_end_waits_for_it() -> None:
    parser, lines = OpenInstruct(), open_instruct(3, 0.5)
    assert feed(parser, *lines[:-1]) == []
    assert len(feed(parser, lines[-1])) == 1


@pytest.mark.parametrize("make", [OpenRlhf, Torchtune, PrimeRl, NemoRl, OpenInstruct])
@given(line=st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(make: type[Parser], line: bytes) -> None:
    starts = [*nemo_rl(1, 9, 0.5, 0.25)[:3], open_instruct(1, 0.5)[0], "Global step 1: {"]
    make().feed([*(start.encode() + line for start in starts), line])
