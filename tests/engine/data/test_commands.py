"""Every data command answers unusable input in one line, without a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
