"""Tables and JSON lines of programs that are not known: CSV and JSONL with a step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.logs.formats.csv_table import CsvParser
from engine.logs.formats.detect import detect
from engine.logs.formats.external_run import open_external, read_steps
from engine.run.history.train_log import Metrics, history
from tests.engine.logs.formats.samples import write


def steps(path: Path) -> list[tuple[int, Metrics]]:
    return [(step.step, dict(step.metrics)) for step in read_steps(path)]


@pytest.mark.parametrize(
    "lines",
    [
        ["step,loss,lr", "1,0.5,1e-05"],
        ["epoch;Step;loss;lr", ";1.0;0.5;1e-05"],
        ["loss\tglobal_step\tlr\tnote", "0.5\t1\t1e-05\twarm-up"],
        ["\ufeffiteration,loss,lr", '1,"0.5",1e-05'],
    ],
)
def test_a_table_is_read_by_its_header(tmp_path: Path, lines: list[str]) -> None:
    path = write(tmp_path / "metrics.csv", *lines)
    assert detect(path).format.key == "csv"
    assert steps(path) == [(1, {"train/loss": 0.5, "train/lr": 1e-05})]


def test_an_empty_cell_is_no_value_and_nan_is_one(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "step,loss,val_loss", "1,0.5,", "2,nan,0.25")
    assert steps(path) == [(1, {"train/loss": 0.5}), (2, {"train/loss": None, "val_loss": 0.25})]


def test_a_nan_is_a_gap_in_a_table_that_writes_gaps_so(tmp_path: Path) -> None:
    rows = ["1,nan,0.5", "2,0.75,nan", "3,nan,0.25", "4,nan,nan"]
    path = write(tmp_path / "x.csv", "step,loss,val_loss", *rows)
    assert steps(path) == [
        (1, {"val_loss": 0.5}),
        (2, {"train/loss": 0.75}),
        (3, {"val_loss": 0.25}),
    ]


@pytest.mark.parametrize("step", ["Step", "trainer/global_step", "train/global_step"])
def test_a_chart_exported_from_wandb_holds_the_metric_of_its_run(tmp_path: Path, step: str) -> None:
    header = f'"{step}","night - critic/score/mean","night - critic/score/mean__MIN"'
    path = write(tmp_path / "chart.csv", header, '"1","0.5","0.25"')
    assert steps(path) == [(1, {"critic/score/mean": 0.5, "reward/mean": 0.5})]


def test_a_chart_of_several_runs_says_whose_a_value_is(tmp_path: Path) -> None:
    header = '"Step","a - b - train/loss","a - b - _step","c - train/loss"'
    path = write(tmp_path / "chart.csv", header, '"1","0.5","1",""', '"2","0.25","2","4"')
    assert steps(path) == [
        (1, {"loss (a - b)": 0.5}),
        (2, {"loss (a - b)": 0.25, "loss (c)": 4.0}),
    ]


def test_a_header_that_comes_again_names_the_columns_from_there_on(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "step,loss", "1,0.5", "loss,step", "0.25,2")
    assert steps(path) == [(1, {"train/loss": 0.5}), (2, {"train/loss": 0.25})]


def test_the_last_step_is_known_before_the_history_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "step,loss", *(f"{n},0.5" for n in range(90_000)))
    last = detect(path).open().last_step()
    assert last is not None
    assert last.step == 89_999


@pytest.mark.parametrize("lines", [["name,loss", "a,0.5"], ["step,loss", "one,0.5"], ["step", "1"]])
def test_a_table_without_steps_is_of_no_format(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(UsageError, match="no known format"):
        detect(write(tmp_path / "x.csv", *lines))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(line: bytes) -> None:
    CsvParser(b"step,loss").feed([line, b"1," + line, b"step," + line, line])


@pytest.mark.parametrize(
    "record",
    [
        {"step": 7, "loss": 0.5},
        {"global_step": 7, "train/loss": 0.5, "note": "warm-up", "done": False},
        {"train/global_step": 7, "loss": 0.5},
        {"iteration": 7.0, "train": {"loss": 0.5}},
    ],
)
def test_an_object_is_read_by_its_keys(tmp_path: Path, record: dict[str, object]) -> None:
    path = write(tmp_path / "metrics", "starting", json.dumps(record), json.dumps({"event": "end"}))
    assert detect(path).format.key == "jsonl"
    assert steps(path) == [(7, {"train/loss": 0.5})]


@pytest.mark.parametrize("record", [{"loss": 0.5}, {"step": 7}, {"step": "first", "loss": 0.5}])
def test_an_object_without_a_step_or_a_number_is_of_no_format(
    tmp_path: Path, record: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match="no known format"):
        detect(write(tmp_path / "x", json.dumps(record)))


def test_a_text_with_some_objects_is_no_file_of_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "x", *["words"] * 9, json.dumps({"step": 1, "loss": 0.5}))
    with pytest.raises(UsageError, match="no known format"):
        detect(path)


NULL = {"step": 2, "loss": None, "reward": "NaN", "kl": float("nan"), "val/loss": None}


def test_a_null_is_not_logged_and_a_nan_is(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", json.dumps(NULL))
    assert steps(path) == [(2, {"reward/mean": None, "actor/kl_loss": None})]


def test_a_later_record_of_a_step_adds_to_it(tmp_path: Path) -> None:
    """As in an export of a history by pandas: a row of a validation has no loss."""
    rows = [{"step": 1, "loss": 0.5, "val/loss": None}, {"step": 1, "loss": None, "val/loss": 2}]
    jsonl = write(tmp_path / "x.jsonl", *map(json.dumps, rows))
    csv = write(tmp_path / "x.csv", "step,loss,val/loss", "1,0.5,nan", "1,nan,2.0", "2,0.25,nan")
    for path, count in ((jsonl, 1), (csv, 2)):
        entries = history(read_steps(path))
        assert len(entries) == count
        assert entries[0].metrics == {"train/loss": 0.5, "val/loss": 2.0}


def test_ms_swift_counts_steps_of_their_total(tmp_path: Path) -> None:
    """Its last line holds the whole history again."""
    records = [
        {"loss": 0.5, "reward": 0.25, "global_step/max_steps": "1/2", "percentage": "50.00%"},
        {"loss": 0.25, "reward": 0.5, "global_step/max_steps": "2/2", "percentage": "100.00%"},
        {"best_metric": 0.5, "global_step": 2, "log_history": [{"loss": 0.5, "step": 1}]},
    ]
    path = write(tmp_path / "logging.jsonl", *map(json.dumps, records))
    assert steps(path) == [
        (1, {"actor/loss": 0.5, "reward/mean": 0.25}),
        (2, {"actor/loss": 0.25, "reward/mean": 0.5}),
    ]
    watch = open_external(path).watch()
    watch.poll()
    assert watch.run.format.key == "jsonl"
    assert watch.about().total_steps == 2
