"""What a person caused is one line, whatever the terminal can show."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from engine.base import files
from engine.base.errors import UsageError, guarded, unknown_name, with_advice

PROGRAM = """
from engine.base.errors import UsageError, guarded
def main():
    print("15 \\u2013 20 \\u2026")
    raise UsageError("no \\u2013 file")
raise SystemExit(guarded(main))
"""


def test_characters_that_the_terminal_lacks_are_replaced() -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **ascii_only}, capture_output=True
    )
    assert done.stdout == b"15 ? 20 ?\n"
    assert done.stderr == b"error: no ? file\n"
    assert done.returncode == 2


def test_an_error_does_not_repeat_a_secret() -> None:
    assert str(UsageError("unknown sk-proj-Q7w8E9r0T1y2U3i4")) == "unknown …U3i4"


def test_a_link_that_is_not_followed_is_called_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "real.jsonl").write_text("{}\n")
    link = tmp_path / "link.jsonl"
    link.symlink_to("real.jsonl")
    assert guarded(lambda: files.open_to_append(link)) == 2
    assert "link.jsonl: is a symbolic link; name its target" in capsys.readouterr().err


def test_a_broken_package_of_the_environment_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_package.py").write_text("raise ImportError('requires NumPy 2.0 or newer')")
    monkeypatch.syspath_prepend(tmp_path)

    def main() -> int:
        import_module("broken_package")
        return 0

    assert guarded(main) == 2
    expected = "error: broken_package cannot be imported: requires NumPy 2.0 or newer\n"
    assert capsys.readouterr().err == expected


def test_a_missing_module_of_the_program_is_a_fault_of_the_program() -> None:
    with pytest.raises(ModuleNotFoundError):
        guarded(lambda: bool(import_module("engine.no_such_module")))


def test_an_unknown_name_is_answered_with_alike_and_usual_ones_and_how_many_more() -> None:
    options = [*(f"actor/{letter}" for letter in "abcdefghijkl"), "reward/mean", "x/kl_min"]
    error = unknown_name("metric", "KL", options, first=["reward/mean", "val"], all_by="list RUN")
    assert str(error) == (
        "metric 'KL' does not exist; known: x/kl_min, reward/mean, actor/a, actor/b, actor/c, "
        "actor/d, actor/e, actor/f and 6 more. All: list RUN"
    )
    near = unknown_name("metric", "reward/men", options, all_by="list RUN")
    assert str(near).endswith("; did you mean 'reward/mean'? All: list RUN")
    few = unknown_name("metric", "zzz", options[:8], all_by="list RUN")
    assert str(few).endswith(", actor/h")
    assert str(unknown_name("metric", "zzz", [])).endswith("known: none")


@pytest.mark.parametrize(
    ("problem", "text"), [("a", "a. B"), ("a?", "a? B"), ("a.", "a. B"), (UsageError("a"), "a. B")]
)
def test_advice_is_a_sentence_of_its_own(problem: object, text: str) -> None:
    assert with_advice(problem, "B") == text
