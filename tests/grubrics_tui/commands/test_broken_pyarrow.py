"""A pyarrow that cannot be imported costs only the answers that need a parquet file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base.files import fingerprints
from engine.config.frozen import pinned_config
from engine.config.places import data_files
from engine.run.manifest import FileFacts, FullManifest, Setting
from engine.run.run import Run
from tests.engine.checks.project import QWEN2, Project, make_project
from tests.paths import ROOT

pytestmark = pytest.mark.waits

BROKEN = {
    "library": ("ImportError('libarrow.so.2100: cannot open')", "libarrow.so.2100: cannot open"),
    "numpy": ("AttributeError('_ARRAY_API not found')", "AttributeError: _ARRAY_API not found"),
}
NEED_PARQUET = {"parquet", "prompt", "holdout", "steps", "judge"}
Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    made = make_project(tmp_path)
    (tmp_path / "models/base/config.json").write_text(json.dumps(QWEN2))
    return made


@pytest.fixture(params=BROKEN)
def reason(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Break pyarrow, and return what the answers must quote."""
    error, quoted = BROKEN[request.param]
    package = tmp_path / "broken/pyarrow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"raise {error}\n")
    return f"pyarrow cannot be imported: {quoted}"


@pytest.fixture
def program(project: Project) -> Program:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(project.root / "broken"), str(ROOT)])
        return subprocess.run(
            [sys.executable, "-m", "grubrics_tui", *arguments],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return call


@pytest.mark.sample(1)
def test_check_fails_what_needs_parquet_and_answers_the_rest(reason: str, program: Program) -> None:
    done = program("check", "grpo", "--json")
    checks = {check["id"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1
    assert checks["parquet"]["status"] == "fail"
    assert checks["parquet"]["message"] == f"not checked: {reason}"
    assert checks["parquet"]["fix"].startswith("pip install")
    assert {id for id in NEED_PARQUET if checks[id]["status"] in ("ok", "warn")} == set()
    others = {id: check for id, check in checks.items() if id not in NEED_PARQUET}
    assert [id for id, check in others.items() if "pyarrow" in check["message"]] == []
    assert checks["batch"]["status"] == checks["checkpoint"]["status"] == "ok"


@pytest.mark.sample(1)
def test_check_of_jsonl_needs_no_pyarrow(reason: str, program: Program) -> None:
    assert "pyarrow" not in program("check", "sft", "--json").stdout


@pytest.mark.sample(1)
def test_estimate_prints_memory_and_names_what_was_not_read(reason: str, program: Program) -> None:
    done = program("estimate", "grpo")
    assert done.returncode == 0
    assert "parameters" in done.stdout and "checkpoint" in done.stdout
    assert f"data/train.parquet was not read: {reason}" in done.stdout
    assert reason in done.stderr and "pip install" in done.stderr


@pytest.mark.sample(1)
def test_diagnose_names_what_was_not_read(project: Project, reason: str, program: Program) -> None:
    config = project.config("grpo")
    run = Run(project.root / "runs" / "r")
    run.path.mkdir(parents=True)
    entries = {
        key: Setting(value, config.origins.get(key, "default"))
        for key, value in config.values.items()
    }
    run.config_file.write_text(pinned_config(entries))
    data = {name: FileFacts(digest) for name, digest in fingerprints(data_files(config)).items()}
    run.write_manifest(FullManifest(v=1, kind="grpo", config=entries, data=data))
    done = program("diagnose", "r")
    assert (done.returncode, done.stdout.startswith("error")) == (0, False), done
    assert f"not read: {reason}" in done.stderr


@pytest.mark.sample(1)
def test_a_command_that_needs_the_file_ends_in_one_line(reason: str, program: Program) -> None:
    done = program("init", "data/train.parquet")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {reason} [fix: pip install")
