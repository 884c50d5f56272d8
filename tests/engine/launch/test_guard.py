"""The guard stops and tells for a run that nobody watches, and is gone when the run is."""

from __future__ import annotations

import http.server
import json
import shutil
import signal
import sys
import threading
import urllib.error
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec import structs

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.config.load import load_config
from engine.doctor.live import KnownFindings
from engine.launch.guard import LOCK
from engine.launch.guard_actions import Guard, message, notify
from engine.launch.launcher import start_supervisor
from engine.run.events import clear_requests, pending_stop
from engine.run.finding import Finding, Severity
from engine.run.guard_settings import GuardSettings, fires
from engine.run.manifest import AttemptRecord, Setting
from engine.run.processes import end_members, send
from engine.run.run import Run
from engine.run.state import RunState, observed_state
from tests.engine.doctor.test_live import log_steps, make_run
from tests.engine.run.checkpoints.checkpoint_files import save
from tests.engine.supervise.faults.stage import Stage, events, logged, supervisor_of
from tests.waiting import ended, wait_for

REFUSED = "openai.AuthenticationError: Error code: 401 - Incorrect API key provided"
SAID = ("--say", "2", REFUSED)
ADDRESS = "GUARD_WEBHOOK"
QUICK = {"guard.every_s": 0.5}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "runs")
    yield made
    made.clear_away()
    unguarded(made)


def guards(stage: Stage) -> list[int]:
    """The guards of the runs of a stage that are alive."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            alive = process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            continue
        if alive and any("engine.launch.guard" in word for word in words):
            found += [process.pid] if any(str(stage.root) in word for word in words) else []
    return found


def unguarded(stage: Stage) -> None:
    """Wait for the end of all guards: what they had to say and do is done then."""
    wait_for(lambda: guards(stage) == [])


def unhealthy(
    stage: Stage, *arguments: str, steps: int = 1000, saved: Path | None = None, **guard: Any
) -> Run:
    """A run whose judge refuses its key in step 2."""
    config = {**QUICK, **{f"guard.{key}": value for key, value in guard.items()}}
    arguments = (*SAID, "--sleep", "0.1", *arguments)
    return stage.start(*arguments, steps=steps, checkpoints=saved, config=config)


def written(run: Run) -> str:
    """Everything the run's files say."""
    return "\n".join(p.read_text(errors="replace") for p in run.path.rglob("*") if p.is_file())


class Inbox:
    """A server that keeps what is posted to it and answers with ``status``."""

    def __init__(self, status: int = 200, location: str | None = None) -> None:
        self.letters: list[dict[str, Any]] = []
        inbox = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                inbox.letters.append(json.loads(self.rfile.read(size)))
                self.send_response(status)
                if location:
                    self.send_header("Location", location)
                self.end_headers()

            def do_GET(self) -> None:
                inbox.letters.append({"method": "GET"})
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook/sesame-open"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    made = Inbox()
    yield made
    made.close()


def finding(id: str = "judge_auth.key", severity: Severity = Severity.ERROR) -> Finding:
    return Finding(id, severity, "title", "cause")


@pytest.mark.parametrize("chosen", ["error", "judge_auth", "judge_auth.key"])
def test_a_finding_is_chosen_by_severity_class_or_id(chosen: str) -> None:
    assert fires(finding(), [chosen])
    assert not fires(finding("loss_nan", Severity.WARNING), [chosen])


def test_information_never_fires() -> None:
    assert not fires(finding(severity=Severity.INFO), ["info", "judge_auth"])


def test_a_run_has_no_guard_unless_it_is_configured() -> None:
    assert not GuardSettings.of({}).is_on
    assert not GuardSettings.of({"guard.stop_on": Setting([])}).is_on
    assert GuardSettings.of({"guard.command": Setting(["true"])}).is_on


def test_settings_of_a_wrong_type_count_as_missing() -> None:
    odd = {"stop_on": 5, "command": "rm -rf", "every_s": "soon", "webhook_variable": ["A"]}
    config = {f"guard.{key}": Setting(value) for key, value in odd.items()}
    assert GuardSettings.of(config) == GuardSettings()


@pytest.mark.parametrize("value", ["ALERT_ADDRESS", "https://example.org/hook"])
def test_the_variable_of_an_address_must_be_known_as_a_secret(tmp_path: Path, value: str) -> None:
    path = tmp_path / "try.yaml"
    path.write_text(f"grubrics: {{kind: sft}}\nguard: {{webhook_variable: '{value}'}}\n")
    with pytest.raises(UsageError, match=r"guard\.webhook_variable"):
        load_config(str(path))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("critcal", "did you mean 'critical'"),
        ("info", "severities are critical, error and warning"),
        ("judge_atuh", "did you mean 'judge_auth'"),
        ("healthy_noise", "severities are"),
        ("loss_nan.onestep", "did you mean 'loss_nan.one_step'"),
        ("slow_step.generate", "did you mean 'slow_step.generation'"),
    ],
)
@pytest.mark.parametrize("key", ["stop_on", "notify_on"])
def test_a_name_that_no_finding_has_is_refused(
    tmp_path: Path, key: str, name: str, hint: str
) -> None:
    path = tmp_path / "try.yaml"
    path.write_text(f"grubrics: {{kind: sft}}\nguard: {{{key}: [loss_nan, {name}]}}\n")
    with pytest.raises(UsageError, match=rf"guard\.{key}.*no finding is called '{name}'; {hint}"):
        load_config(str(path))


def test_severities_classes_and_ids_may_be_guarded(tmp_path: Path) -> None:
    path = tmp_path / "try.yaml"
    names = ["warning", "slow_step", "slow_step.judge", "loss_nan.one_step"]
    path.write_text(
        "grubrics: {kind: sft}\nmodel: {path: m}\ndata: {train_file: t}\n"
        f"training: {{output_dir: o}}\nguard: {{stop_on: {json.dumps(names)}}}\n"
    )
    assert load_config(str(path)).get("guard.stop_on") == names


def test_a_resumed_run_has_the_alerts_of_its_history(tmp_path: Path) -> None:
    run = make_run(tmp_path, {"number": 1}, {"number": 2, "from_step": 30})
    log_steps(run, 40, exploded=20)
    told, again = KnownFindings(run, attempt=2), finding("kl_or_grad_blowup.gradient")
    assert told.has(again)
    assert told.has(replace(finding(), onset_step=30))
    assert not told.has(replace(finding(), onset_step=31))
    assert not KnownFindings(run, attempt=1).has(again)


@pytest.mark.waits
def test_a_chosen_finding_stops_the_run_at_once(stage: Stage) -> None:
    run = unhealthy(stage, stop_on=["judge_auth"], stop_at_once=True)
    state = ended(run)
    assert state.word == "stopped"
    assert (state.reason or "").startswith("stopped by the guard at step ")
    unguarded(stage)
    assert [event["id"] for event in events(run, "finding")] == ["judge_auth"]


@pytest.mark.thorough
@pytest.mark.waits
def test_or_after_its_next_checkpoint(stage: Stage, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    run = unhealthy(stage, stop_on=["error"], saved=folder)
    wait_for(lambda: observed_state(run).reason == "stops after the next checkpoint")
    assert observed_state(run).state == "running"
    save(folder, 1)
    state = ended(run)
    assert state.word == "stopped"
    assert (state.reason or "").startswith("stopped by the guard at step ")


@pytest.mark.waits
def test_weights_that_do_not_reach_the_engine_stop_the_run(stage: Stage) -> None:
    finding_id = "training_setup_error.weights_not_synced"
    rollout = {"dtype": "float32", "top_p": 1.0, "top_k": -1}
    exact = {f"actor_rollout_ref.rollout.{name}": value for name, value in rollout.items()}
    exact |= {"trainer.v1.trainer_mode": "sync"}
    guard = {"guard.stop_on": [finding_id], "guard.stop_at_once": True}
    arguments = ("--unsynced-from", "3", "--sleep", "0.1")
    run = stage.start(*arguments, steps=1000, config={**QUICK, **exact, **guard})
    assert ended(run).word == "stopped"
    unguarded(stage)
    (event,) = events(run, "finding")
    assert (event["id"], event["step"]) == (finding_id, 3)


@pytest.mark.thorough
@pytest.mark.waits
def test_another_finding_is_noted_once_and_changes_nothing(stage: Stage) -> None:
    run = unhealthy(stage, steps=30, stop_on=["loss_nan"])
    assert ended(run).state == "finished"
    unguarded(stage)
    assert [
        (event["id"], event["severity"], event["step"]) for event in events(run, "finding")
    ] == [("judge_auth", "error", 1)]
    assert pending_stop(run) is None


@pytest.mark.waits
def test_a_chosen_consequence_of_another_finding_stops_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    later = (finding("loss_nan"), finding("slow_step.judge"))
    cause = replace(finding("kl_or_grad_blowup.rate"), followed_by=later)
    guard = Guard(run, GuardSettings(stop_on=("loss_nan",), stop_at_once=True), 1)
    guard._act_on([cause], RunState("running"))
    assert pending_stop(run) is not None
    assert [event["id"] for event in events(run, "finding")] == [cause.id, "loss_nan"]


@pytest.mark.waits
def test_a_finding_that_becomes_more_severe_is_acted_on_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    guard = Guard(run, GuardSettings(stop_on=("critical",), stop_at_once=True), 1)
    for severity in (Severity.WARNING, Severity.WARNING):
        guard._act_on([finding(severity=severity)], RunState("running"))
    assert pending_stop(run) is None
    guard._act_on([finding(severity=Severity.CRITICAL)], RunState("running"))
    assert pending_stop(run) is not None
    noted = [event["severity"] for event in jsonl.read(run.events) if event["event"] == "finding"]
    assert noted == ["warning", "critical"]


def test_a_guard_command_runs_without_a_shell_and_gets_the_finding(
    stage: Stage, tmp_path: Path
) -> None:
    told = tmp_path / "told.json"
    code = "import os, sys; open(sys.argv[1], 'w').write(os.environ['GRUBRICS_FINDING'])"
    odd = "$(touch owned); *"
    run = unhealthy(stage, steps=40, command=[sys.executable, "-c", code, str(told), odd])
    wait_for(lambda: told.exists() and told.read_text())
    assert json.loads(told.read_text())["id"] == "judge_auth"
    assert json.loads(told.read_text())["run"] == run.id
    assert not (stage.root / "owned").exists()


@pytest.mark.waits
def test_an_address_is_posted_to_and_written_nowhere(
    stage: Stage, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADDRESS, inbox.address)
    run = unhealthy(stage, steps=40, webhook_variable=ADDRESS)
    ended(run)
    unguarded(stage)
    assert [letter["id"] for letter in inbox.letters] == ["judge_auth"]
    assert inbox.letters[0]["text"].startswith(f"{run.id}: error since step 1: ")
    assert "sesame-open" not in written(run)


def test_a_notice_follows_no_redirect(
    stage: Stage, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = Inbox(302, inbox.address)
    monkeypatch.setenv(ADDRESS, moved.address)
    settings = GuardSettings(webhook_variable=ADDRESS)
    ways = dict(notify(Run(stage.root / "r"), finding(), settings))
    with pytest.raises(urllib.error.HTTPError, match="302"):
        ways["webhook"]()
    moved.close()
    assert inbox.letters == []


def test_a_notice_holds_no_secret_that_a_log_quoted(stage: Stage) -> None:
    quoted = finding_that_quotes(
        "cannot reach https://u:S3cretPw@db/x with sk-proj-Q7w8E9r0T1y2U3i4"
    )
    told = str(message(Run(stage.root / "r"), quoted)["text"])
    assert "S3cretPw" not in told and "Q7w8" not in told
    assert "cannot reach https://…@db/x" in told


def finding_that_quotes(text: str) -> Finding:
    return Finding("other.error", Severity.ERROR, "title", f"It says: {text}")


@pytest.mark.sample(1)
@pytest.mark.waits
@pytest.mark.parametrize("address", ["http://127.0.0.1:1/sesame-open", "http://x/ sesame-open", ""])
def test_notices_that_fail_are_warnings_without_the_address(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv(ADDRESS, address)
    run = unhealthy(stage, steps=40, webhook_variable=ADDRESS, command=["/no/such/program"])
    ended(run)
    unguarded(stage)
    messages = [event["message"] for event in events(run, "warning")]
    assert messages[0] == "the guard's command failed: FileNotFoundError"
    assert messages[1].startswith("the guard's webhook failed: ")
    assert "sesame-open" not in written(run)


@pytest.mark.thorough
@pytest.mark.waits
def test_a_resumed_run_is_guarded_again(stage: Stage) -> None:
    """The second attempt says nothing wrong: what the first one showed does not stop it."""
    run = unhealthy(stage, stop_on=["judge_auth"], stop_at_once=True)
    assert ended(run).word == "stopped"
    manifest = run.read_full_manifest()
    (first,) = manifest.attempts
    argv = (*first.argv[:2], "20", "--sleep", "0.05", "--hang-at", "20")
    second = AttemptRecord(number=2, argv=argv, from_step=3)
    run.write_manifest(structs.replace(manifest, attempts=[first, second], total_steps=20))
    clear_requests(run)
    run.attempt(2).path.mkdir()
    start_supervisor(run)
    wait_for(lambda: len(guards(stage)) == 1)
    (run.attempt(2).path / "go").touch()
    assert ended(run).state == "finished"
    unguarded(stage)
    assert len(events(run, "finding")) == 1


@pytest.mark.thorough
@pytest.mark.waits
def test_the_guard_of_a_lost_run_ends(stage: Stage) -> None:
    run = stage.long(config={**QUICK, "guard.stop_on": ["critical"]})
    wait_for(lambda: len(guards(stage)) == 1)
    send(supervisor_of(run), signal.SIGKILL)
    end_members(run, 0.0)
    wait_for(lambda: observed_state(run).state == "lost")
    unguarded(stage)


@pytest.mark.thorough
@pytest.mark.waits
def test_the_guard_of_a_deleted_run_ends(stage: Stage) -> None:
    run = stage.long(config={**QUICK, "guard.stop_on": ["critical"]})
    wait_for(lambda: len(guards(stage)) == 1)
    wait_for(lambda: _deleted(run))
    unguarded(stage)


def _deleted(run: Run) -> bool:
    shutil.rmtree(run.path, ignore_errors=True)
    return not run.path.exists()


@pytest.mark.waits
def test_a_run_continues_after_its_guard_is_killed(stage: Stage) -> None:
    run = stage.long(config={**QUICK, "guard.stop_on": ["critical"]})
    wait_for((run.path / LOCK).exists)  # until then it does not listen to signals
    psutil.Process(guards(stage)[0]).terminate()
    unguarded(stage)
    before = len(logged(run))
    wait_for(lambda: len(logged(run)) > before)
    assert observed_state(run).state == "running"
