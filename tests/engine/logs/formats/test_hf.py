"""HF's Trainer and TRL: dicts on a console, and trainer_state.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.logs.formats.hf import HfConsole, HfState, newest_state
from engine.run.history.train_log import Step, history
from tests.engine.logs.formats.samples import DICTS, trainer_state

ENTRY = {"step": 1, "loss": 2.5, "grad_norm": 1.5, "learning_rate": 0.5, "epoch": 0.1}
BAR = "\r  5%|▌         | {}/20 [00:00<00:05,  3.51it/s]"


def parsed(*lines: str) -> list[Step]:
    return HfConsole().feed([line.encode() for line in lines])


def test_entries_are_counted_and_an_evaluation_belongs_to_the_one_before() -> None:
    first, second = history(parsed(*DICTS))
    assert first.metrics["train/loss"] == 5.92
    assert first.metrics["train/lr"] == 0.001
    assert second.metrics["train/grad_norm"] is None
    assert second.metrics["val/loss"] == 4.25
    assert second.metrics["train_loss"] == 5.71


def test_a_progress_bar_has_the_step_and_the_total() -> None:
    parser = HfConsole()
    line = f"Loading weights: 100%|██| 26/26 [00:00<00:00]{BAR.format(10)}{' ' * 40}\r{DICTS[0]}"
    (step,) = parser.feed([line.encode()])
    assert (step.step, parser.about().total_steps) == (10, 20)
    (step,) = parser.feed([f"\r 50%|█  | 1/2 [00:00<00:01]{BAR.format(20)}\r{DICTS[1]}".encode()])
    assert step.step == 20


def test_a_run_with_rewards_has_a_policy_loss() -> None:
    line = "{'loss': '0.5', 'reward': '0.25', 'reward_std': '0.125', 'frac_reward_zero_std': '0', "
    (step,) = parsed(line + "'completions/mean_length': '64', 'kl': '0.01', 'step_time': '0.3'}")
    assert step.metrics == {
        "actor/loss": 0.5,
        "reward/mean": 0.25,
        "reward/std": 0.125,
        "reward/zero_std_share": 0.0,
        "response_length/mean": 64.0,
        "actor/kl_loss": 0.01,
        "timing_s/step": 0.3,
    }


def test_other_dicts_are_no_steps() -> None:
    assert parsed("{'name': 'x'}", "{'loss'", "config: {'lr': 1}", "{'loss': 'high'}") == []


@given(st.lists(st.binary(max_size=200), max_size=4), st.binary(max_size=60))
def test_any_bytes_are_fine(lines: list[bytes], tail: bytes) -> None:
    HfConsole().feed([*lines, b"{'loss': '" + tail + b"'}", b"{'loss': 1, '" + tail + b"': 2}"])


@given(st.floats(-1e90, 1e90), st.floats(-1e90, 1e90))
def test_written_numbers_come_back(loss: float, norm: float) -> None:
    quoted, bare = parsed(str({"loss": str(loss)}), str({"loss": loss, "grad_norm": norm}))
    assert quoted.metrics == {"train/loss": loss}
    assert bare.metrics == {"train/loss": loss, "train/grad_norm": norm}


def test_a_state_file_gives_its_entries_once_and_then_what_is_new(tmp_path: Path) -> None:
    path = trainer_state(tmp_path / "trainer_state.json", [ENTRY])
    reader = HfState(path)
    (step,) = reader.poll(1).steps
    assert (step.step, step.metrics["train/loss"]) == (1, 2.5)
    assert reader.about().total_steps == 20
    assert reader.poll(1).steps == []
    trainer_state(path, [ENTRY, {**ENTRY, "step": 2, "loss": float("nan")}])
    assert [s.step for s in reader.poll(1).steps] == [2]


def test_an_output_folder_is_followed_from_checkpoint_to_checkpoint(tmp_path: Path) -> None:
    trainer_state(tmp_path / "checkpoint-9" / "trainer_state.json", [ENTRY])
    reader = HfState(tmp_path)
    assert len(reader.poll(1).steps) == 1
    newer = tmp_path / "checkpoint-10" / "trainer_state.json"
    trainer_state(newer, [ENTRY, {**ENTRY, "step": 2}])
    assert newest_state(tmp_path) == newer
    assert [step.step for step in reader.poll(1).steps] == [2]


def test_a_half_written_state_file_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text('{"log_history": [')
    reader = HfState(path)
    assert reader.poll(1).steps == []
    entries: list[Any] = [ENTRY, "no entry", {"step": "x"}, {"step": -1}]
    trainer_state(path, entries)
    assert len(reader.poll(1).steps) == 1


@given(st.binary(max_size=300))
def test_any_bytes_in_a_state_file_are_fine(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trainer_state.json"
        path.write_bytes(data)
        HfState(path).poll(1)
