"""What a trainer, a reward or an external log quotes: no command and no file repeats a secret."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.doctor.diagnose import diagnose_run
from engine.launch.guard_actions import message
from engine.run.run import Run
from grubrics_tui.cli import main
from tests.engine.supervise.faults.stage import Stage, in_state

pytestmark = pytest.mark.waits

BODY = "Q7w8E9r0T1y2U3i4O5p6"
OPAQUE = "opaque-value-of-a-variable-1"
QUOTED = {
    "known value": OPAQUE,
    "known in base64": base64.b64encode(OPAQUE.encode()).decode(),
    "login": "S3cretPw",
    "key": f"sk-proj-{BODY}",
    "hub": f"hf_{BODY}",
    "gitlab": f"glpat-{BODY}",
    "header": f"{BODY}abc",
    "query": "quoted-in-a-query",
    "password": "hunter22",
}
TEXT = (
    f"cannot reach postgres://u:S3cretPw@db/x: {OPAQUE} {QUOTED['known in base64']} "
    f"{QUOTED['key']} {QUOTED['hub']} {QUOTED['gitlab']} Authorization: Bearer {BODY}abc "
    "http://h/?api_key=quoted-in-a-query password=hunter22"
)
COMMANDS = (
    ["runs"],
    ["show", "leaky"],
    ["diagnose", "leaky"],
    ["diagnose", "external.log"],
    ["watch", "leaky"],
    ["metrics", "leaky"],
    ["rollouts", "leaky"],
    ["entry", "leaky"],
    ["entry", "leaky", "--append"],
    ["entry", "leaky", "--observations", TEXT],
    ["compare", "leaky", "leaky"],
    ["report", "leaky", "-o", "report.html", "--markdown", "report.md", "--svg", "charts"],
    ["report", "leaky", "--markdown", "-"],
    ["note", "leaky", TEXT],
    ["note", "leaky"],
    ["tag", "leaky", f"glpat-{BODY}"],
    ["fix", "leaky", "--dry-run"],
    ["reproduce", "leaky", "--dry-run"],
    ["resume", "leaky", "--dry-run"],
    ["judge-test", "leaky"],
    ["check", TEXT],
    ["check", "leaky", TEXT],
    ["launch", "leaky", f"grubrics.description={TEXT}"],
    ["estimate", "leaky"],
    ["queue"],
    ["reap"],
    ["stop", TEXT],
)


@pytest.fixture
def leaky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run whose trainer died of an exception that quotes secrets, as its reward did before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_OWN_TOKEN", OPAQUE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    stage = Stage(tmp_path / "runs")
    say = ["--say", "2", f"ERROR: {TEXT}"]
    run = stage.start("--fail-at", "3", "--fail-with", TEXT, *say, steps=5, name="leaky")
    in_state(run, "failed")
    error = {"kind": "auth", "message": TEXT}
    record = {"v": 1, "split": "train", "step": 2, "group": "g2", "rollout": 3, "reward": None}
    jsonl.append(run.attempt(1).path / "reward.jsonl", {**record, "t": 1.0, "error": error})
    Path("external.log").write_text(f"Traceback (most recent call last):\nRuntimeError: {TEXT}\n")
    yield run
    stage.clear_away()


def leaks(text: str) -> list[str]:
    return [name for name, secret in QUOTED.items() if secret in text]


def answers(
    words: list[str], patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]
) -> str:
    """What a command prints for a person and for a program, on both streams."""
    for options in ([], ["--json"]):
        patch.setattr("sys.argv", ["grubrics-tui", *words, *options])
        with pytest.raises(SystemExit):
            main()
    out, err = capture.readouterr()
    return out + err


def test_no_command_and_no_file_repeats_what_an_exception_quoted(
    leaky: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {" ".join(words)[:40]: answers(words, monkeypatch, capsys) for words in COMMANDS}
    assert "cannot reach postgres://…@db/x" in said["show leaky"]
    assert {words: leaks(text) for words, text in said.items() if leaks(text)} == {}
    raw = {"console.log", "reward.jsonl", "external.log"}  # what others wrote, as they wrote it
    files = [path for path in Path().rglob("*") if path.is_file() and path.name not in raw]
    assert Path("docs/experiment-log.md") in files and leaky.events in [p.resolve() for p in files]
    texts = {str(path): path.read_text(errors="replace") for path in files}
    # The manifest of this run was written by the test, with the stand-in's command in it.
    own = {
        str(path): leaks(text) for path, text in texts.items() if path != "runs/leaky/manifest.json"
    }
    assert {path: found for path, found in own.items() if found} == {}


def test_findings_and_notices_repeat_no_secret(leaky: Run) -> None:
    findings = diagnose_run(leaky)
    assert findings
    told = [json.dumps(message(leaky, finding)) + repr(finding) for finding in findings]
    assert leaks("".join(told)) == []
