"""TensorBoard's event files: scalars, checksums, torn ends and several files of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.logs.formats.detect import detect
from engine.logs.formats.external_run import read_steps
from engine.logs.formats.tensorboard import TensorBoardRun
from engine.run.history.train_log import Step
from tests.engine.logs.formats.samples import event_record, events, message

AT_ONCE = 1 << 20
WRITTEN = bytes.fromhex(
    "4800000000000000fe92489d096834117135c1da411a0d627261696e2e4576656e743a32522e0a2c74656e736f"
    "72626f6172642e73756d6d6172792e7772697465722e6576656e745f66696c655f777269746572b8c298d82000"
    "00000000000029eda95009f03d117135c1da4110072a130a110a0a747261696e2f6c6f7373150000003fa83226"
    "a6200000000000000029eda95009253e117135c1da4110082a130a110a0a747261696e2f6c6f73731500008"
    "03ea0470750"
)
"""What torch's ``SummaryWriter`` wrote for a loss of 0.5 at step 7 and of 0.25 at step 8."""


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def losses(steps: list[Step]) -> list[tuple[int, float | None]]:
    return [(step.step, step.metrics["train/loss"]) for step in steps]


def test_a_file_of_a_real_writer_is_read(tmp_path: Path) -> None:
    assert losses(list(read_steps(write(tmp_path / "x", WRITTEN)))) == [(7, 0.5), (8, 0.25)]


def test_the_tags_of_a_step_are_one_step_with_its_time(tmp_path: Path) -> None:
    path = write(tmp_path / "x", events([(7, {"train/loss": 0.5, "train/grad_norm": 2.0})]))
    (step,) = read_steps(path)
    assert (step.step, step.time) == (7, 1e9 + 7)
    assert dict(step.metrics) == {"train/loss": 0.5, "train/grad_norm": 2.0}


def test_a_scalar_may_be_a_tensor_of_one_number(tmp_path: Path) -> None:
    tensor = message((1, 1), (4, b"\0\0\0?"))  # DT_FLOAT, 0.5
    value = message((1, message((1, "train/loss"), (8, tensor))))
    record = event_record(message((2, 7), (5, value)))
    path = write(tmp_path / "x", events([]) + record)
    assert losses(list(read_steps(path))) == [(7, 0.5)]


def test_a_torn_record_waits_for_its_end(tmp_path: Path) -> None:
    data = events([(1, {"train/loss": 0.5}), (2, {"train/loss": 0.25})])
    path = write(tmp_path / "x", data[:-3])
    run = TensorBoardRun(path)
    assert losses(run.poll(AT_ONCE).steps) == [(1, 0.5)]
    path.write_bytes(data)
    news = run.poll(AT_ONCE)
    assert (losses(news.steps), news.read_share) == ([(2, 0.25)], 1.0)


def test_a_record_with_a_wrong_checksum_costs_only_itself(tmp_path: Path) -> None:
    parts = [events([]), *(events([(n, {"train/loss": 0.5})]) for n in (1, 2))]
    head = len(parts[0])
    broken = bytearray(parts[1][head:])
    broken[-6] ^= 1
    path = write(tmp_path / "x", parts[0] + bytes(broken) + parts[2][head:])
    assert losses(list(read_steps(path))) == [(2, 0.5)]


def test_nothing_is_read_after_a_length_with_a_wrong_checksum(tmp_path: Path) -> None:
    good = events([(1, {"train/loss": 0.5})])
    path = write(tmp_path / "x", good + b"\xff" * 100 + good)
    assert losses(list(read_steps(path))) == [(1, 0.5)]


def test_a_picture_is_passed_over(tmp_path: Path) -> None:
    picture = event_record(message((2, 1), (5, bytes(300_000))))
    scalars = events([(2, {"train/loss": 0.5})])
    path = write(tmp_path / "x", scalars[:0] + events([]) + picture + scalars[len(events([])) :])
    assert losses(list(read_steps(path))) == [(2, 0.5)]


def test_the_files_of_a_folder_are_one_run_and_a_later_one_trains_again(tmp_path: Path) -> None:
    first = events([(n, {"train/loss": 0.5}) for n in (1, 2, 3)])
    second = events([(n, {"train/loss": 0.25}) for n in (3, 4)])
    write(tmp_path / "runs" / "a" / "events.out.tfevents.100.host.1.0", first)
    folder = write(tmp_path / "runs" / "a" / "events.out.tfevents.200.host.2.0", second).parent
    assert detect(tmp_path / "runs" / "a").path == folder
    steps = list(read_steps(folder))
    assert [(step.step, step.attempt, step.redone) for step in steps] == [
        (1, 1, False),
        (2, 1, False),
        (3, 1, False),
        (3, 2, True),
        (4, 2, False),
    ]


def test_an_output_folder_with_one_event_file_is_that_run(tmp_path: Path) -> None:
    data = events([(1, {"train/loss": 0.5})])
    log = write(tmp_path / "out" / "runs" / "today" / "events.out.tfevents.1.host.1.0", data)
    assert detect(tmp_path / "out").path == log


def test_a_file_that_appears_in_the_folder_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "events.out.tfevents.1", events([(1, {"train/loss": 0.5})]))
    run = TensorBoardRun(tmp_path)
    assert losses(run.poll(AT_ONCE).steps) == [(1, 0.5)]
    write(tmp_path / "events.out.tfevents.2", events([(2, {"train/loss": 0.25})]))
    assert losses(run.poll(AT_ONCE).steps) == [(2, 0.25)]


@pytest.mark.parametrize("lead", [b"", events([])])
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(
    tmp_path_factory: pytest.TempPathFactory, lead: bytes, data: bytes
) -> None:
    path = write(tmp_path_factory.mktemp("any") / "x", lead + event_record(data) + data)
    TensorBoardRun(path).poll(AT_ONCE)
