"""A column of the list of runs is one declaration: screen, text, JSON and filters follow it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.run import columns
from engine.run.columns import Cell, Column, RunRow
from engine.run.history.run_filter import RunFilter
from engine.run.registry import list_runs
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.supervise.run_summary import read_summary
from grubrics_tui.cli import app
from grubrics_tui.commands.runs import list_runs as print_runs
from grubrics_tui.screens.runs.table import Table, Widths
from grubrics_tui.settings.state_files import ListViewFile

GPUS = Column(
    name="gpus",
    about="GPUs that it may use",
    kind="text",
    value=lambda run: (run.state.gpus or "",),
    key="gpus",
    to_json=lambda run: run.state.gpus,
    cell=Cell(rank=9, width=8),
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs on different GPUs, and a list that has a column for them."""
    for name, gpus in (("one", "0,1"), ("two", "7")):
        run = Run(tmp_path / name)
        run.path.mkdir()
        jsonl.write_json(run.manifest_file, {"v": 1, "recipe": "tiny", "kind": "sft"})
        write_state(run, RunState("failed", started=1e9, ended=1e9 + 67, gpus=gpus))
    monkeypatch.setattr(columns, "COLUMNS", (*columns.COLUMNS, GPUS))
    return tmp_path


def printed(root: Path, capsys: pytest.CaptureFixture[str], *, as_json: bool, only: str) -> str:
    print_runs(chosen=only, runs=str(root), as_json=as_json)
    return capsys.readouterr().out


def test_one_declaration_adds_a_column_to_text_json_and_filters(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "0,1" in printed(root, capsys, as_json=False, only="gpus:0")
    listed = json.loads(printed(root, capsys, as_json=True, only="gpus=7"))["runs"]
    assert [(run["id"], run["gpus"]) for run in listed] == [("two", "7")]


def test_one_declaration_adds_a_column_to_the_screen(root: Path) -> None:
    runs = list_runs(root)
    table = Table.fit(Widths.of(runs), 120)
    row = "".join(span.text for span in table.draw_row(runs[0], None))
    assert runs[0].state.gpus is not None
    assert f"  {runs[0].state.gpus}".ljust(10) in row


def test_the_json_of_a_run_has_every_key_once() -> None:
    keys = [column.key for column in columns.COLUMNS if column.key is not None]
    names = [name for column in columns.COLUMNS for name in column.names]
    assert len(set(keys)) == len(keys)
    assert len(set(names)) == len(names)


def test_a_filter_accepts_the_json_key_of_a_column() -> None:
    for column in columns.COLUMNS:
        if column.key is not None:
            value = {"text": "failed", "number": "1", "time": "2d", "duration": "2h"}[column.kind]
            RunFilter(f"{column.key}:{value}")


def test_a_column_declares_whether_it_is_in_json() -> None:
    with pytest.raises(TypeError, match="'key'"):
        Column(name="x", about="x", kind="number", value=lambda run: 1)  # type: ignore[call-arg]
    assert [column.name for column in columns.COLUMNS if column.key is None] == [
        "health", "age", "ended", "attempt", "exit"
    ], "a column without a JSON key: give it one, or name it here"  # fmt: skip


def test_no_column_has_a_key_that_show_uses_for_something_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``show --json`` has keys of its own, such as ``attempts``."""
    keys = {column.key for column in columns.COLUMNS}
    needed = tuple(column for column in columns.COLUMNS if column.key == "duration_s")
    monkeypatch.setattr(columns, "COLUMNS", needed)
    of_show = read_summary(Run(root / "one")).keys() - {"duration_s"}
    assert "attempts" in of_show
    taken = keys & of_show - {"config", "kind", GPUS.key}
    assert not taken, f"show --json has {taken} already, with another meaning"


def test_a_list_has_the_duration_of_its_runs_as_json(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads(printed(root, capsys, as_json=True, only="duration:67s"))["runs"]
    assert [run["duration_s"] for run in listed] == [67, 67]


def test_a_run_without_steps_validates_only() -> None:
    assert columns.format_step(None, 0) == "val only"
    assert columns.format_step(3, None) == "3"
    assert columns.format_step(None, 40) == "–/40"


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """Runs with different rewards, oldest first: low, high, and one without."""
    for age_days, (name, reward) in enumerate((("none", None), ("high", 0.9), ("low", 0.1))):
        run = Run(tmp_path / name)
        run.path.mkdir()
        changes = [
            {"key": "optim.lr", "end": "lr", "before": 1e-5, "after": reward, "origin": "cli"}
        ]
        jsonl.write_json(run.manifest_file, {"v": 1, "kind": "grpo", "changes": changes})
        if reward is not None:
            metrics = {"reward/mean": reward}
            jsonl.append(run.train_log, {"v": 1, "step": 1, "attempt": 1, "metrics": metrics})
        write_state(run, RunState("failed", started=1e9 - 86_400 * age_days, ended=1e9, step=1))
    return tmp_path


def lines(root: Path, *options: str) -> list[str]:
    done = CliRunner().invoke(app, ["runs", "--runs", str(root), *options])
    assert done.exception is None, done.exception
    return done.output.splitlines()


def test_runs_are_sorted_with_the_highest_number_first_and_those_without_one_last(
    scored: Path,
) -> None:
    shown = ("--columns", "id")
    assert lines(scored, "--sort", "reward", *shown) == ["id", "high", "low", "none"]
    assert lines(scored, "--sort", "-reward", *shown) == ["id", "low", "high", "none"]
    assert lines(scored, "--sort", "id", *shown) == ["id", "high", "low", "none"]
    assert lines(scored, "--sort", "age", *shown) == ["id", "none", "high", "low"]


def test_chosen_columns_are_printed_under_their_heads(scored: Path) -> None:
    head, *rows = lines(scored, "--columns", "id,reward,changed,exit")
    assert head.split() == ["id", "reward", "changed", "exit"]
    assert rows[1].split() == ["high", "▃", "0.900", "lr=0.9", "–"]


def test_a_pipe_gets_every_value_completely(scored: Path) -> None:
    run = Run(scored / "low")
    long = "x" * 300
    changes = [
        {"key": f"{'y' * 30}{number}", "before": "", "after": long, "origin": "cli"}
        for number in range(25)
    ]
    jsonl.write_json(run.manifest_file, {"v": 1, "kind": "grpo", "changes": changes})
    write_state(run, RunState("failed", started=1e9, ended=1e9, step=123_456, total_steps=200_000))
    for options in ((), ("--columns", "id,changed,step")):
        (row,) = (line for line in lines(scored, *options) if line.startswith("low"))
        assert row.count(long) == 25 and "123456/200000" in row and "…" not in row


def test_the_table_leaves_out_columns_of_which_no_run_has_a_value(scored: Path) -> None:
    head = lines(scored)[0].split()
    assert head == ["id", "state", "step", "reward", "changed", "took", "age", "why"]


@pytest.mark.parametrize("option", ["--sort", "--columns"])
def test_an_unknown_column_is_refused_with_the_nearest_one(scored: Path, option: str) -> None:
    done = CliRunner().invoke(app, ["runs", "--runs", str(scored), option, "rewrad"])
    assert isinstance(done.exception, UsageError)
    assert "column 'rewrad' does not exist; did you mean 'reward'?" in str(done.exception)


def test_a_saved_filter_is_applied_by_its_name(scored: Path) -> None:
    ListViewFile().save_filter("best", "reward>0.5")
    assert lines(scored, "--filter", "best", "--columns", "id") == ["id", "high"]


class TestColumnsOfANarrowScreen:
    """Rewards are 15 wide and may be cut to 6, changed values 14."""

    @pytest.fixture
    def widths(self) -> Widths:
        names = ("step", "reward", "changed", "duration", "age")
        cells = dict(zip(columns.find_columns(names), (6, 15, 28, 7, 4), strict=True))
        return Widths(("x" * 24,), 0, cells)

    def test_changed_values_are_visible_at_120_columns(self, widths: Widths) -> None:
        assert "changed" in Table.fit(widths, 116).names

    def test_a_long_id_is_cut_before_changed_values_are_left_out(self) -> None:
        names = ("step", "reward", "loss", "val", "changed", "duration", "age")
        full = zip(columns.find_columns(names), (7, 15, 15, 6, 28, 7, 4), strict=True)
        table = Table.fit(Widths(("x" * 40,), 0, dict(full)), 116)
        assert "changed" in table.names
        assert table.id < 40

    def test_a_curve_is_cut_at_its_beginning_and_the_number_stays(self) -> None:
        run = RunRow("a", RunState("finished"), "r", "grpo", 0.0, reward=0.5, curve="▁▂▃▄▅▆▇█")
        table = Table(80, 12, 5, dict(zip(columns.find_columns(["reward"]), (8,), strict=True)))
        row = "".join(span.text for span in table.draw_row(run, None))
        assert "█  0.500" in row
        assert "▇" not in row

    def test_more_room_shows_more_of_the_same_columns(self, widths: Widths) -> None:
        wide, narrow = (Table.fit(widths, width) for width in (140, 100))
        assert set(narrow.names) <= set(wide.names)
        assert sum(wide.columns.values()) > sum(narrow.columns.values())

    def test_a_column_grows_into_free_room_and_leaves_the_rest_to_the_details(self) -> None:
        changed = ("total_training_steps=25", "lr=3e-05", "train_batch_size=128")
        state = RunState("failed", reason="exit code 1 at step 3: out of memory")
        run = RunRow("a", state, "r", "grpo", 0.0, changed=changed)
        widths = Widths.of([run])
        wide, narrow = (
            "".join(span.text for span in Table.fit(widths, width).draw_row(run, None))
            for width in (200, 110)
        )
        assert " ".join(changed) in wide
        assert " ".join(changed) not in narrow


def test_a_config_key_and_a_metric_can_be_columns(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"training.seed": {"value": 7, "origin": "cli"}}
    jsonl.write_json(root / "one" / "manifest.json", {"v": 1, "kind": "sft", "config": values})
    jsonl.append(root / "one" / "train_log.jsonl", {"step": 1, "metrics": {"train/loss": 0.25}})
    print_runs(shown="id,seed,train/loss", runs=str(root))
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["id", "seed", "train/loss"]
    assert sorted(rows) == [["one", "7", "0.25"], ["two"]]


def test_a_column_that_no_run_has_is_refused_with_the_nearest(root: Path) -> None:
    values = {"training.learning_rate": {"value": 3e-5, "origin": "cli"}}
    jsonl.write_json(root / "one" / "manifest.json", {"v": 1, "kind": "sft", "config": values})
    with pytest.raises(UsageError, match=r"config key 'training\.learnin_rate'; did you mean"):
        print_runs(shown="id,training.learnin_rate", runs=str(root))
