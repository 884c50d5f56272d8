"""Telling formats apart by their content."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.logs.formats.detect import FORMATS, detect, format_table, trainers
from engine.logs.formats.format import Format
from engine.run.history.train_log import Step
from tests.engine.logs.formats.samples import (
    DICTS,
    FACTORY,
    SLO,
    TIMINGS,
    events,
    history,
    nemo_rl,
    open_instruct,
    openrlhf,
    prime_rl,
    torchtune,
    trainer_state,
    verl_line,
    wandb_log,
    write,
)

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[4]
VERL = verl_line(1, {"actor/pg_loss": 0.5}, "(TaskRunner pid=1) ")
CONTENTS = {
    "verl": ["starting", VERL],
    "hf": ["Loading", *DICTS],
    "step-timing": ["starting", *TIMINGS],
    "pairs": ["starting", "step=1 loss=0.5"],
    "verl-jsonl": [json.dumps({"step": 1, "data": {"a": 1}})],
    "llama-factory": [json.dumps(FACTORY)],
    "slo": [json.dumps(SLO)],
    "own": [json.dumps(Step(1, 1, 0.0, {"a": 1.0}).to_json())],
    "slime": ["model.py:665 - step 0: {'train/loss': 0.5, 'train/lr-pg_0': 1e-06}"],
    "openrlhf": ["starting", openrlhf(1, {"policy_loss": 0.5})],
    "torchtune": ["starting", torchtune(1, 0.5)],
    "prime-rl": ["starting", prime_rl(1, "Loss: 0.5000 | LR: 1.00e-06")],
    "nemo-rl": ["starting", *nemo_rl(1, 10, 0.5, 0.25)],
    "open-instruct": ["starting", *open_instruct(1, 0.5)],
    "jsonl": [json.dumps({"step": 1, "loss": 0.5})],
    "csv": ["step,loss", "1,0.5"],
}


@pytest.mark.parametrize("key", CONTENTS)
@pytest.mark.parametrize("name", ["x.log", "metrics.jsonl", "no_suffix"])
def test_the_content_tells_the_format_whatever_the_name(
    tmp_path: Path, key: str, name: str
) -> None:
    assert detect(write(tmp_path / name, *CONTENTS[key])).format.key == key


def test_binary_and_whole_file_formats(tmp_path: Path) -> None:
    log = tmp_path / "x"
    log.write_bytes(wandb_log([history(a=1, _step=1)]))
    assert detect(log).format.key == "wandb"
    assert detect(trainer_state(tmp_path / "y", [])).format.key == "hf-state"
    log.write_bytes(events([(1, {"loss": 0.5})]))
    assert detect(log).format.key == "tensorboard"


def test_a_verl_log_with_judge_lines_is_one_of_verl(tmp_path: Path) -> None:
    assert detect(write(tmp_path / "x", *TIMINGS, VERL)).format.key == "verl"


def test_a_verl_log_is_known_before_its_first_step(tmp_path: Path) -> None:
    path = write(tmp_path / "x", "\x1b[36m(TaskRunnerV1 pid=3734)\x1b[0m {'trainer': 1}")
    assert detect(path).format.key == "verl"


def test_steps_far_behind_a_long_start_are_found(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"noise\n" * 1_000_000 + VERL.encode() + b"\n")
    assert detect(path).format.key == "verl"


def test_two_trainers_in_one_log_need_a_choice(tmp_path: Path) -> None:
    path = write(tmp_path / "x", VERL, *DICTS)
    with pytest.raises(UsageError, match=r"choose one: --as verl \(.*\), --as hf \("):
        detect(path)
    assert detect(path, "hf").format.key == "hf"
    with pytest.raises(UsageError, match="format 'verk' does not exist; did you mean 'verl'"):
        detect(path, "verk")


def test_an_unknown_file_is_refused_with_the_known_formats(tmp_path: Path) -> None:
    path = write(tmp_path / "x", "hello")
    with pytest.raises(UsageError) as refused:
        detect(path)
    assert all(each.name in str(refused.value) for each in FORMATS)
    assert "--metrics 'iter (?P<step>" in str(refused.value)
    with pytest.raises(UsageError, match="is empty"):
        detect(write(tmp_path / "y"))


def test_a_pipe_is_refused_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        detect(tmp_path / "pipe")


def test_a_folder_with_one_run_is_that_run(tmp_path: Path) -> None:
    log = write(tmp_path / "deep" / "er" / "metrics.jsonl", *CONTENTS["verl-jsonl"])
    write(tmp_path / "console.log", VERL)
    write(tmp_path / "notes.txt", "hello")
    assert detect(tmp_path).path == log


def test_a_trainer_that_is_known_counts_before_general_formats(tmp_path: Path) -> None:
    log = write(tmp_path / "run" / "console.log", VERL)
    write(tmp_path / "run" / "rollouts" / "1.jsonl", json.dumps({"step": 1, "score": 0.5}))
    assert detect(tmp_path / "run").path == log
    both = write(tmp_path / "x", json.dumps({"step": 1, "loss": 0.5}), openrlhf(1, {"kl": 1}))
    assert detect(both).format.key == "openrlhf"


def test_a_pattern_of_the_user_reads_any_text(tmp_path: Path) -> None:
    path = write(tmp_path / "x", "iter 7: cost 0.5")
    found = detect(path, r"iter (?P<step>\d+): cost (?P<loss>\S+)")
    (step,) = found.open().poll(1 << 20).steps
    assert (step.step, dict(step.metrics)) == (7, {"train/loss": 0.5})


def test_a_folder_of_checkpoints_is_followed_as_one(tmp_path: Path) -> None:
    trainer_state(tmp_path / "checkpoint-2" / "trainer_state.json", [])
    result = detect(tmp_path)
    assert (result.format.key, result.path) == ("hf-state", tmp_path)


def test_a_folder_with_several_runs_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file of a known format"):
        detect(tmp_path)
    for name in ("a", "b"):
        write(tmp_path / name / "x.log", VERL)
    with pytest.raises(
        UsageError, match=r"contains several runs; name one of .*a/x.log, .*b/x.log"
    ):
        detect(tmp_path)


@given(st.binary(max_size=300))
def test_any_file_is_known_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(data)
    with contextlib.suppress(UsageError):
        detect(path).open().poll(1000)


@pytest.mark.parametrize("log_format", FORMATS, ids=lambda log_format: log_format.key)
def test_a_format_is_documented(log_format: Format) -> None:
    """README names the trainers that most people use; docs/cockpit.md has every format."""
    assert log_format.trainers, f"{log_format.key}: declare trainers, what writes such logs"
    assert log_format.reads, f"{log_format.key}: declare reads, for the table of docs/cockpit.md"
    (line,) = [
        line
        for line in (ROOT / "README.md").read_text().splitlines()
        if "grubrics-tui watch PATH " in line
    ]
    named = set(log_format.trainers) & set(trainers())
    missing = [trainer for trainer in named if trainer not in line]
    assert not missing, f"README.md, watch PATH: add {', '.join(missing)}"


def test_the_documented_table_of_formats_is_the_present_one() -> None:
    assert format_table() in (ROOT / "docs/cockpit.md").read_text(), "renew it: make generated"
