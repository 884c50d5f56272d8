"""Every data command answers unusable input in one line, without a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.data import analyze, precompute, prepare, prepare_sft, tiny_world
from tests.paths import ROOT

pytestmark = pytest.mark.waits

CHOICE = '{"question": "?", "options": {"A": "x", "B": "y"}, "answer_idx": "B"}\n'


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("engine.data.analyze", "deep.jsonl"),
        ("engine.data.prepare", "single --dataset medqa --path choice.jsonl --output_dir file/out"),
        ("engine.data.prepare", "preset --presets latin1.yaml"),
        ("engine.data.prepare_sft", "--oss_eval_path deep.jsonl"),
        ("engine.data.tiny_world", "--no-model --out file/tiny"),
        (
            "engine.data.precompute",
            "--dataset medqa --dataset_path choice.jsonl --provider offline "
            "--output_cache file/cache.jsonl",
        ),
    ],
)
def test_an_unusable_output_path_is_one_line(module: str, arguments: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "choice.jsonl").write_text(CHOICE)
    (tmp_path / "deep.jsonl").write_text("[" * 100_000 + "\n")
    (tmp_path / "latin1.yaml").write_bytes(b"description: caf\xe9")
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments.split()],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    ("program", "words", "problem"),
    [
        (analyze, "", "argument CACHE is missing"),
        (analyze, "a.jsonl b.jsonl", "unexpected argument 'b.jsonl'"),
        (precompute, "--provider offline", "--dataset is missing"),
        (precompute, "--dataset tiny --provider azur", "did you mean 'azure'"),
        (prepare, "", "name a command: preset, single, curriculum"),
        (prepare, "presett", "did you mean 'preset'"),
        (prepare, "preset --seed x", "preset: --seed: 'x' is not a valid int"),
        (prepare, "preset --total_item 3", "did you mean '--total_items'"),
        (prepare, "preset --name --list", "--name needs a value"),
        (prepare, "curriculum --verif --open a", "--verif needs a value"),
        (prepare_sft, "--subset bad", "'bad' is not one of 'all', 'no_answers', 'with_answers'"),
        (tiny_world, "--sede 1", "did you mean '--seed'"),
    ],
)
def test_a_wrong_command_line_is_one_line(program: Any, words: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as error:
        program.main(words.split())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("program", [analyze, precompute, prepare, prepare_sft, tiny_world])
@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_lists_the_options(
    program: Any, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main([word]) == 0
    assert (program.__doc__ or "").split(".")[0][:40] in capsys.readouterr().out
