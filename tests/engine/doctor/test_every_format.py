"""One reader for each format: ``watch``, ``series`` and the doctor see the same numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.base import plugins
from engine.base.errors import UsageError
from engine.doctor.diagnose import diagnose_file
from engine.doctor.log_doctor import LogDoctor, source_of_external
from engine.doctor.text.progress import Steps, step_counters
from engine.logs.formats import detect
from engine.logs.formats.detect import FORMATS, load_formats
from engine.logs.formats.external_run import open_external
from engine.logs.formats.format import LineFormat, Parser, Sample
from engine.logs.formats.names import Numbering, number
from engine.logs.formats.series import read_columns
from engine.run.history.columns import Columns
from engine.run.history.train_log import Step
from tests.engine.doctor.metrics.curves import alerts, healthy
from tests.engine.logs.formats.samples import (
    FACTORY,
    SLO,
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

STEPS, BROKEN_FROM = 60, 40
NAN = float("nan")


def losses() -> list[float]:
    curve = healthy(2, STEPS)["actor/pg_loss"]
    return [NAN if step >= BROKEN_FROM else float(curve[step]) for step in range(STEPS)]


def norms() -> list[float]:
    return [float(value) for value in healthy(2, STEPS)["actor/grad_norm"]]


def hf_dicts() -> list[dict[str, float]]:
    return [
        {"loss": loss, "grad_norm": norm, "learning_rate": 1e-5}
        for loss, norm in zip(losses(), norms(), strict=True)
    ]


def own(n: int, loss: float) -> str:
    return json.dumps(Step(n, 1, 0.0, {"train/loss": None if loss != loss else loss}).to_json())


def wandb(path: Path) -> Path:
    records = [history(_step=n, **values) for n, values in enumerate(hf_dicts(), start=1)]
    path.write_bytes(wandb_log(records))
    return path


def write_bytes(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


class Bars(LineFormat):
    """A bar that says its loss, and no line feed before the epoch ends."""

    key, name = "bars", "bars"
    is_console, has_bars = True, True
    marks = (b"cost: ",)
    step_pattern = rb"\|(\d+)\|cost: "

    def matches(self, sample: Sample) -> bool:
        return b"|cost: " in sample.head

    def parser(self, path: Path) -> Parser:
        return BarParser()


class BarParser(Parser):
    def __init__(self) -> None:
        self._numbering = Numbering()

    def feed(self, lines: list[bytes]) -> list[Step]:
        parts = [line.split(b"|") for line in lines]
        return [
            self._numbering.step(int(step), {"train/loss": number(loss.split()[1][:-1])})
            for _, step, loss, *_ in parts
        ]


def bars(path: Path) -> Path:
    lines = [f"\r1|{n}|cost: {loss!r}:  5%|#   |" for n, loss in enumerate(losses(), start=1)]
    path.write_text("".join(lines) + "\r")
    return path


BROKEN: dict[str, Callable[[Path], Path]] = {
    "wandb": wandb,
    "hf-state": lambda path: trainer_state(
        path, [{"step": n, **values} for n, values in enumerate(hf_dicts(), start=1)]
    ),
    "verl-jsonl": lambda path: write(
        path,
        *(
            json.dumps({"step": n, "data": {"actor/pg_loss": loss, "actor/grad_norm": norm}})
            for n, (loss, norm) in enumerate(zip(losses(), norms(), strict=True), start=1)
        ),
    ),
    "llama-factory": lambda path: write(
        path,
        *(
            json.dumps({**FACTORY, "current_steps": n, "loss": loss})
            for n, loss in enumerate(losses(), start=1)
        ),
    ),
    "slo": lambda path: write(
        path,
        *(
            json.dumps({**SLO, "step": n, "loss": loss, "tokens_out": 5 + n % 3})
            for n, loss in enumerate(losses())
        ),
    ),
    "own": lambda path: write(path, *(own(n, loss) for n, loss in enumerate(losses(), start=1))),
    "verl": lambda path: write(
        path,
        *(
            verl_line(n, {"actor/pg_loss": loss, "actor/grad_norm": norm}, "(TaskRunner pid=1) ")
            for n, (loss, norm) in enumerate(zip(losses(), norms(), strict=True), start=1)
        ),
    ),
    "hf": lambda path: write(path, *(str(values) for values in hf_dicts())),
    "pairs": lambda path: write(
        path,
        *(
            f"step={n} loss={loss} grad_norm={norm}"
            for n, (loss, norm) in enumerate(zip(losses(), norms(), strict=True), start=1)
        ),
    ),
    "tensorboard": lambda path: write_bytes(path, events(enumerate(hf_dicts(), start=1))),
    "openrlhf": lambda path: write(
        path, *(openrlhf(n, {"policy_loss": loss}) for n, loss in enumerate(losses(), start=1))
    ),
    "slime": lambda path: write(
        path,
        *(f"x - step {n}: {{'train/loss': {loss}}}" for n, loss in enumerate(losses(), start=1)),
    ),
    "torchtune": lambda path: write(
        path, *(torchtune(n, loss) for n, loss in enumerate(losses(), start=1))
    ),
    "prime-rl": lambda path: write(
        path, *(prime_rl(n, f"Loss: {loss:.4f}") for n, loss in enumerate(losses(), start=1))
    ),
    "nemo-rl": lambda path: write(
        path,
        *(
            line
            for n, loss in enumerate(losses(), start=1)
            for line in nemo_rl(n, STEPS, loss, 0.2 + n % 3 / 10)
        ),
    ),
    "open-instruct": lambda path: write(
        path,
        *(line for n, loss in enumerate(losses(), start=1) for line in open_instruct(n, loss)),
    ),
    "jsonl": lambda path: write(
        path, *(json.dumps({"step": n, **values}) for n, values in enumerate(hf_dicts(), start=1))
    ),
    "csv": lambda path: write(
        path,
        "step,loss,grad_norm",
        *(
            f"{n},{loss},{norm}"
            for n, (loss, norm) in enumerate(zip(losses(), norms(), strict=True), start=1)
        ),
    ),
    "bars": bars,
}
WITHOUT_LOSS = {"step-timing"}
"""Formats that hold times and nothing else."""


@pytest.fixture(autouse=True)
def _one_more_format(monkeypatch: pytest.MonkeyPatch) -> None:
    added = plugins.Plugins((plugins.Plugin("bars", "elsewhere 1.0", Bars()),), ())
    monkeypatch.setattr(plugins, "load", lambda group, kind: added)
    load_formats.cache_clear()
    step_counters.cache_clear()
    monkeypatch.setattr(detect, "load_formats", load_formats.__wrapped__)


def columns(steps: Sequence[Step]) -> Columns:
    result = Columns()
    for step in steps:
        result.add(step)
    return result


def test_every_format_has_a_log_here_whose_loss_breaks() -> None:
    assert {each.key for each in FORMATS} | {"bars"} == {*BROKEN} | WITHOUT_LOSS


@pytest.mark.parametrize("key", BROKEN)
def test_watch_series_and_the_doctor_see_the_same(tmp_path: Path, key: str) -> None:
    path = BROKEN[key](tmp_path / "night.log")
    run = open_external(path)
    assert run.format.key == key
    watched = Columns()
    watched.merge(run.watch().poll().batch)
    printed = read_columns(str(path), tmp_path)
    doctor = LogDoctor(source_of_external(run))
    doctor.diagnose()
    seen = doctor.columns
    assert seen is not None
    assert watched.names == printed.names == seen.names
    for name in watched.names:
        for other in (printed, seen):
            np.testing.assert_array_equal(watched.get(name).steps, other.get(name).steps)
            np.testing.assert_array_equal(watched.get(name).values, other.get(name).values)
    assert any(np.isnan(watched.get(name).values).sum() >= 20 for name in watched.names)


LAST: dict[str, tuple[str, list[float]]] = {
    "bars": ("1|1|cost: 0.5:  1%|# |\r1|2|cost: 0.25:  2%|# |", [0.5, 0.25]),
    "hf": (
        "{'loss': 0.5}\r 20%|# | 2/10 [{'loss': 0.25}\r 30%|# | 3/10 [{'loss': 0.125}",
        [0.5, 0.25, 0.125],
    ),
    "hf torn": ("{'loss': 0.5}\n{'loss': 0.25", [0.5]),
    "verl": ("step:1 - actor/loss:0.5 - x:1\nstep:2 - actor/loss:0.25 - x:1", [0.5, 0.25]),
    "verl torn": ("step:1 - actor/loss:0.5\nstep:2 - actor/loss:0.2", [0.5]),
    "verl NaN": ("step:1 - actor/loss:0.5\nstep:2 - actor/loss:nan", [0.5, NAN]),
    "verl-jsonl torn": ('{"step": 1, "data": {"actor/loss": 0.5}}\n{"step": 2, "data"', [0.5]),
}  # fmt: skip


@pytest.mark.parametrize("case", LAST)
def test_a_last_line_without_an_end_counts_everywhere_as_far_as_it_is_complete(
    tmp_path: Path, case: str
) -> None:
    text, losses = LAST[case]
    path = tmp_path / "train.log"
    path.write_text(text)
    run = open_external(path, case.split()[0])
    watched = Columns()
    watch = run.watch()
    for _ in range(3):
        watched.merge(watch.poll().batch)
    printed = read_columns(str(path), tmp_path, as_format=run.format.key)
    doctor = LogDoctor(source_of_external(run))
    doctor.diagnose(ended=True)
    assert doctor.columns is not None
    for seen in (watched, printed, doctor.columns):
        (name,) = {"actor/loss", "train/loss"} & {*seen.names}
        np.testing.assert_array_equal(seen.get(name).values, losses)


def test_a_torn_line_waits_if_its_format_does_not_show_its_end(tmp_path: Path) -> None:
    class Plain(Bars):
        has_bars = False

    path = tmp_path / "train.log"
    path.write_text("1|1|cost: 0.5:\n1|2|cost: 1.5e:")
    reader = Plain().open(path)
    assert [step.step for step in reader.poll(1 << 20).steps] == [1]
    assert reader.rest() == []


def test_a_step_whose_line_ends_later_has_all_of_its_values(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("step:1 - actor/loss:0.5 - x:1\nstep:2 - actor/loss:0.25 - x:1")
    watch, seen = open_external(path).watch(), Columns()
    seen.merge(watch.poll().batch)
    assert seen.get("x").values.tolist() == [1]
    with path.open("a") as log:
        log.write("23\nstep:3 - actor/loss:0.125 - x:4\n")
    update = watch.poll()
    seen.merge(update.batch)
    assert update.state.step == 3
    assert seen.get("actor/loss").values.tolist() == [0.5, 0.25, 0.125]
    assert seen.get("x").values.tolist() == [1, 123, 4]
    assert not watch.poll().batch


@pytest.mark.parametrize("key", BROKEN)
def test_a_loss_that_turns_nan_is_found_live_and_afterwards(tmp_path: Path, key: str) -> None:
    path = BROKEN[key](tmp_path / "night.log")
    live = LogDoctor(source_of_external(open_external(path))).diagnose()
    assert "loss_nan" in alerts(live)
    assert alerts(diagnose_file(path)) == alerts(live)


def test_the_text_doctor_counts_the_steps_of_every_console(tmp_path: Path) -> None:
    consoles = [log_format for log_format in detect.formats() if log_format.is_console]
    step_timing = write(tmp_path / "timing.log", *(f"STEP_TIMING step={n} x" for n in range(1, 61)))
    for log_format in consoles:
        key = log_format.key
        assert log_format.step_pattern, f"the console format {key!r} needs a step_pattern"
        counter = re.compile(log_format.step_pattern)
        assert counter in step_counters()
        log = step_timing if key in WITHOUT_LOSS else BROKEN[key](tmp_path / key)
        steps = Steps().after(counter, log.read_bytes())
        assert steps.trained in ((STEPS, 0), (None, BROKEN_FROM)), key


def test_a_step_without_a_number_of_usual_length_is_not_counted() -> None:
    counter = re.compile(rb"at (\w*)")
    assert Steps().after(counter, b"at x, at , at " + b"9" * 5000 + b", at 7") == Steps(7)


def test_steps_on_bars_come_before_the_line_ends(tmp_path: Path) -> None:
    path = bars(tmp_path / "night.log")
    watch = open_external(path).watch()
    assert len(watch.poll_steps().steps) == STEPS
    with path.open("a") as log:
        log.write("1|61|cost: 0.5:  9%|##  |\r1|62|cost:")
    assert watch.poll().batch.steps.tolist() == [61]


def test_a_broken_plugin_is_named_where_nothing_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nameless(Bars):
        key = "verl"

    broken = plugins.Plugins(
        (plugins.Plugin("twin", "elsewhere 1.0", Nameless()),), ("plugin x of y 2 is skipped",)
    )
    monkeypatch.setattr(plugins, "load", lambda group, kind: broken)
    with pytest.raises(UsageError, match=r"plugin x of y 2 is skipped.*twin of elsewhere 1.0"):
        detect.detect(write(tmp_path / "x", "hello"))
