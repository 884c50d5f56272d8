"""Commands on runs that somebody else may have written: shown, and done only with --trust."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.base import files, jsonl
from engine.run.run import Run
from engine.run.state import RunState, write_state
from grubrics_tui.cli import app
from tests.manifests import change_manifest

CONFIG = {"judge.base_url": {"value": "http://evil.example/v1", "origin": "file"}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Writable by everybody, as in a folder that was unpacked with its modes."""
    run = Run(tmp_path / "runs" / "package")
    files.make_folder(tmp_path / "runs")
    files.make_folder(run.path)
    files.make_folder(run.attempt(1).path)
    attempt = {"number": 1, "argv": ["/bin/sh", "-c", "id"]}
    jsonl.write_json(
        run.manifest_file,
        {"v": 1, "kind": "grpo", "cwd": "/", "attempts": [attempt], "config": CONFIG},
    )
    files.write_atomic(run.config_file, "grubrics: {kind: grpo}\n")
    write_state(run, RunState("failed"))
    run.path.chmod(0o777)
    return run


EXECUTING = {
    "resume": ["resume", "package"],
    "fix": ["fix", "package"],
    "reproduce": ["reproduce", "package"],
    "reproduce --rescore": ["reproduce", "package", "--rescore"],
    "judge-test": ["judge-test", "package"],
    "check": ["check", "{path}/recipe.yaml"],
    "launch": ["launch", "{path}/recipe.yaml"],
    "launch --from": ["launch", "--from", "package"],
    "judge-test of the file": ["judge-test", "{path}/recipe.yaml"],
}
WRITING = {
    "stop": ["stop", "package"],
    "tag": ["tag", "package", "x"],
    "note": ["note", "package", "x"],
    "archive": ["archive", "package"],
    "delete": ["delete", "package", "--yes"],
    "entry": ["entry", "package", "--append", "--file", "{path}/../log.md"],
}


def invoke(run: Run, words: list[str]) -> tuple[int, str, str]:
    words = [word.format(path=run.path) for word in words]
    done = CliRunner().invoke(app, [*words, "--runs", str(run.path.parent)])
    return done.exit_code, done.stderr, str(done.exception)


@pytest.mark.parametrize(
    "words", [*EXECUTING.values(), *WRITING.values()], ids=[*EXECUTING, *WRITING]
)
def test_nothing_is_done_and_what_the_run_holds_is_shown(run: Run, words: list[str]) -> None:
    before = sorted(run.path.parent.rglob("*"))
    code, shown, error = invoke(run, words)
    assert code != 0
    assert "writable by everybody" in shown and "--trust" in error
    assert "/bin/sh -c id" in shown and "http://evil.example/v1" in shown
    assert sorted(run.path.parent.rglob("*")) == before


@pytest.mark.parametrize("words", EXECUTING.values(), ids=EXECUTING)
def test_a_run_from_elsewhere_executes_nothing_unasked(run: Run, words: list[str]) -> None:
    run.path.chmod(0o700)
    code, shown, error = invoke(run, words)
    assert code != 0
    assert "you did not launch it here" in shown and "--trust" in error


@pytest.mark.parametrize("words", WRITING.values(), ids=WRITING)
def test_a_run_from_elsewhere_is_ones_own_to_put_away(run: Run, words: list[str]) -> None:
    run.path.chmod(0o700)
    assert invoke(run, words)[0] == 0


def test_with_trust_it_is_done_and_remembered(run: Run) -> None:
    assert invoke(run, ["tag", "package", "x", "--trust"])[0] == 0
    assert invoke(run, ["stop", "package"])[0] == 0
    attempt = {"number": 1, "argv": ["/bin/sh", "-c", "id; id"]}
    change_manifest(run, attempts=[attempt])
    assert invoke(run, ["tag", "package", "y"])[0] != 0


def test_with_trust_a_run_is_launched_again(run: Run) -> None:
    _, shown, error = invoke(run, ["launch", "--from", "package", "--trust", "--dry-run"])
    assert "writable by everybody" in shown
    assert "--trust" not in error


def test_reading_needs_no_trust(run: Run) -> None:
    for words in (["show", "package"], ["runs"], ["tag", "package"], ["entry", "package"]):
        assert invoke(run, words)[0] == 0


def test_json_is_not_mixed_with_what_is_shown(run: Run) -> None:
    done = CliRunner().invoke(
        app, ["tag", "package", "x", "--trust", "--json", "--runs", str(run.path.parent)]
    )
    assert json.loads(done.stdout)["tags"] == ["x"]


def test_a_name_that_leads_into_a_run_is_the_runs_config(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("configs").mkdir()
    Path("configs/mine.yaml").symlink_to(run.config_file)
    code, told, error = invoke(run, ["check", "mine"])
    assert code != 0 and "address    judge.base_url: http://evil.example/v1" in told
    assert "add --trust" in error
