"""An offline W&B run: the framing of its log, the few fields that count, and a real one."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.logs.formats.detect import detect
from engine.logs.formats.external_run import open_external, read_steps
from engine.logs.formats.protobuf import fields, integer, text
from engine.logs.formats.wandb import WandbLog, WandbRun
from tests.engine.logs.formats.samples import history, message, wandb_log

SETTING = message((1, "max_steps"), (16, "40"))
RUN = message((17, message((1, "abc"), (4, message((1, SETTING))))))
EXIT = message((18, message((1, 1))))

SDK = """
import math, wandb
run = wandb.init(project="p", name="tiny", dir=".", config={"model": {"path": "qwen"}})
for step in range(1, 40):
    run.log({"critic/score/mean": step / 8, "actor/pg_loss": math.nan if step == 3 else -step,
             "text": "hello", "h": wandb.Histogram([1, 2, 3])}, step=step)
    print("said", step)
run.finish()
"""


def log_at(folder: Path, *records: bytes) -> Path:
    path = folder / "offline-run-1" / "run-abc.wandb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(wandb_log(records))
    return path


def test_history_becomes_steps(tmp_path: Path) -> None:
    rows = [history(**{"a/b": n / 2, "_step": n, "_timestamp": 1.7e9 + n}) for n in range(3)]
    reader = WandbRun(log_at(tmp_path, RUN, *rows, EXIT))
    steps = reader.poll(1 << 20).steps
    assert [(s.step, s.time, s.metrics) for s in steps[1:]] == [
        (1, 1.7e9 + 1, {"a/b": 0.5}),
        (2, 1.7e9 + 2, {"a/b": 1.0}),
    ]
    about = reader.about()
    assert (about.total_steps, about.ended) == (40, "ended with exit code 1")


def test_the_trainers_own_step_counts_where_its_callback_logs_it(tmp_path: Path) -> None:
    row = {"train/global_step": 50, "train/loss": 0.5, "eval/loss": 0.25, "_step": 3}
    (step,) = WandbRun(log_at(tmp_path, history(**row))).poll(1 << 20).steps
    assert (step.step, step.metrics) == (50, {"train/loss": 0.5, "val/loss": 0.25})


def test_names_mean_what_they_mean_in_other_formats(tmp_path: Path) -> None:
    row = {"train/reward": 0.5, "train/kl": 0.25, "train/loss": 2.0, "_step": 3}
    (step,) = WandbRun(log_at(tmp_path, history(**row))).poll(1 << 20).steps
    assert step.metrics == {"reward/mean": 0.5, "actor/kl_loss": 0.25, "actor/loss": 2.0}


def test_text_media_and_flags_are_left_out(tmp_path: Path) -> None:
    row = {"_step": 1, "t": "x", "l": [1], "d": {"a": 1}, "b": True, "n": math.nan, "i": math.inf}
    (step,) = WandbRun(log_at(tmp_path, history(**row))).poll(1 << 20).steps
    assert step.metrics == {"n": None, "i": None}


def test_console_output_comes_in_complete_lines(tmp_path: Path) -> None:
    messages = [message((13, message((3, piece)))) for piece in ("a", "b\nc", "\n", "torn")]
    assert WandbRun(log_at(tmp_path, *messages)).poll(1 << 20).console == [b"ab", b"c"]


@given(st.lists(st.binary(max_size=70_000), max_size=5), st.integers(1, 200_000))
def test_records_of_any_size_come_back_whole_however_the_file_grows(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], cut: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "run.wandb"
    data = wandb_log(records)
    path.write_bytes(data[:cut])
    log = WandbLog(path)
    found = log.records(1)
    path.write_bytes(data)
    while new := log.records(1):
        found += new
    assert found == records


@given(st.binary(max_size=400), st.integers(0, 300))
def test_any_bytes_are_fine(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes, place: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "run.wandb"
    data = bytearray(wandb_log([RUN, history(a=1, _step=1), damage]))
    data[7 + place : 7 + place + len(damage)] = damage
    path.write_bytes(data)
    reader = WandbRun(path)
    for _ in range(3):
        reader.poll(1 << 20)


def test_damage_costs_its_block_and_not_the_next(tmp_path: Path) -> None:
    rows = [history(**{"_step": n, "a": 1.0, "pad" + "x" * 1000: 0}) for n in range(100)]
    path = log_at(tmp_path, *rows)
    data = bytearray(path.read_bytes())
    data[40_000] ^= 0xFF
    path.write_bytes(data)
    steps = [step.step for step in WandbRun(path).poll(1 << 20).steps]
    assert steps[0] == 0 and steps[-1] == 99 and 60 < len(steps) < 100


def test_protobuf_numbers_and_texts() -> None:
    data = message((1, 300), (2, "x"), (2, "é"), (3, 2**64 - 2))
    assert next(iter(fields(data))) == (1, 300)
    assert (text(data, 2), integer(data, 3), integer(data, 9), text(data, 9)) == ("é", -2, 0, "")


@given(st.binary(max_size=100))
def test_any_message_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        list(fields(data))


def test_another_version_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.wandb"
    path.write_bytes(b":W&B\xe1\xbe\x07rest")
    with pytest.raises(UsageError, match="a W&B log of version 7; only version 0 can be read"):
        detect(path)


@pytest.mark.long
def test_a_run_that_the_sdk_wrote_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    env = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    subprocess.run([sys.executable, "-c", SDK], cwd=tmp_path, env=env, check=True)
    run = open_external(tmp_path / "wandb")
    assert (run.format.key, run.kind.name) == ("wandb", "grpo")
    assert run.id.startswith("offline-run-")
    steps = list(read_steps(tmp_path / "wandb"))
    assert [step.step for step in steps] == list(range(1, 40))
    assert [s.metrics["reward/mean"] for s in steps] == [n / 8 for n in range(1, 40)]
    assert steps[2].metrics["actor/pg_loss"] is None
    assert "text" not in steps[0].metrics
    watch = run.watch()
    update = watch.poll()
    assert update.state.reason == "ended with exit code 0"
    assert watch.about().model == "qwen"
    assert b"said 39" in update.console
