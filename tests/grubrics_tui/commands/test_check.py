"""How `check` writes its answers for a person at a terminal, and for a pipe."""

from __future__ import annotations

from engine.checks.check import fail, ok
from engine.run.host.programs import typed_module
from grubrics_tui.commands.check import check_lines

WORDS = "every file of the config was found and can be read, " * 4
LONG_PATH = f"/data/{'deep/' * 30}train.parquet"
PREPARE = typed_module("engine.data.prepare")
FIX = f"{PREPARE} preset --only-cached --output_dir data/processed --seed 42"
HEAD = len("fail  parquet      ")


def test_a_pipe_gets_one_line() -> None:
    assert check_lines(fail("parquet", WORDS, FIX), None) == [
        f"fail  parquet      {WORDS}  [{FIX}]"
    ]


def test_a_terminal_gets_lines_that_fit_and_break_between_words() -> None:
    lines = check_lines(ok("parquet", WORDS), 80)
    assert len(lines) > 1 and all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("ok    parquet      every")
    assert all(line.startswith(" " * HEAD) for line in lines[1:])
    assert " ".join(line[HEAD:] for line in lines) == WORDS.strip()


def test_neither_a_path_nor_a_command_is_broken() -> None:
    lines = check_lines(fail("parquet", f"{LONG_PATH} does not exist", FIX), 80)
    assert any(LONG_PATH in line for line in lines)
    assert lines[-1] == f"      fix: {FIX}"


def test_a_terminal_of_no_width_still_gets_words() -> None:
    assert len(check_lines(ok("parquet", WORDS), 1)) < len(WORDS.split())
