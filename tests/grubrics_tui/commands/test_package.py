"""``package`` and ``verify``: what they print, and how they end."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grubrics_tui.cli import app
from tests.grubrics_tui.sample_run import SampleRun


def run_command(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SampleRun:
    """A finished run in ``runs`` of the current folder."""
    monkeypatch.chdir(tmp_path)
    sample = SampleRun.create(Path("runs"), "night")
    sample.grow(3)
    sample.say("finished")
    return sample


@pytest.mark.row("H27")
def test_a_package_is_verified_and_its_unpacked_run_is_read(
    sample: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = run_command("metrics", "night", "reward/mean").stdout
    assert run_command("package", "night").exit_code == 0
    done = run_command("verify", "night.zip")
    assert (done.exit_code, done.stdout) == (0, "night.zip: 6 files as listed\n")
    with zipfile.ZipFile("night.zip") as archive:
        archive.extractall(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere" / "night-package")
    assert run_command("metrics", "night", "reward/mean").stdout == metrics != ""
    assert json.loads(run_command("show", "night", "--json").stdout)["step"] == 3
    assert run_command("verify", ".").exit_code == 0


@pytest.mark.row("H27")
def test_a_flipped_bit_is_named_with_its_file_and_exit_code_1(sample: SampleRun) -> None:
    run_command("package", "night")
    with zipfile.ZipFile("night.zip") as archive:
        archive.extractall()
    log = Path("night-package/runs/night/train_log.jsonl")
    log.write_bytes(log.read_bytes().replace(b"reward", b"rewarD", 1))
    done = run_command("verify", "night-package")
    assert done.exit_code == 1
    assert done.stdout.startswith("changed  runs/night/train_log.jsonl (")
    answer = json.loads(run_command("verify", "night-package", "--json").stdout)
    assert answer["ok"] is False and answer["problems"][0]["kind"] == "changed"


def test_a_masked_file_and_an_active_run_are_said(sample: SampleRun) -> None:
    sample.print(b"HF_TOKEN=hf_aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1h")
    sample.say("running")
    done = run_command("package", "night", "-o", "x.zip")
    assert done.exit_code == 0
    assert "masked   runs/night/attempt_1/console.log" in done.stdout
    assert "night' is still active: packed as of now, step 3" in done.stderr
