"""Numbers of steps are taken from the lines of a console that hold them."""

from __future__ import annotations

from engine.doctor.text.reader import LogReader


def read(text: str) -> LogReader:
    reader = LogReader()
    reader.feed(text.encode())
    reader.finish()
    return reader


def test_verl_lines() -> None:
    columns = read(
        "x\n(T pid=1) step:4 - actor/grad_norm:0.5 - critic/score/mean:0.1\n"
    ).series.columns()
    assert columns is not None
    assert columns.get("actor/grad_norm").values.tolist() == [0.5]


def test_the_bar_above_tells_the_step_of_a_trainers_dict() -> None:
    bar = " 38%|###8      | 26/68 [00:48<01:19,  1.89s/it]\n"
    columns = read(
        bar + "{'loss': 0.5, 'grad_norm': 1.0, 'learning_rate': 1e-5}\n"
    ).series.columns()
    assert columns is not None
    assert columns.get("train/loss").steps.tolist() == [26]


def test_many_steps_are_packed() -> None:
    log = "".join(f"step:{n} - actor/grad_norm:{n}.5\n" for n in range(1, 2501))
    columns = read(log).series.columns()
    assert columns is not None
    assert columns.get("actor/grad_norm").steps.size == 2500


def test_a_log_without_numbers_has_no_columns() -> None:
    assert read("thinking step by step: nine\n").series.columns() is None
