"""The doctor of a run that grows says at every moment what it would say of the whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base import jsonl
from engine.doctor.diagnose import diagnose_run
from engine.doctor.live import LiveDoctor, RunFollower
from engine.doctor.text.findings import ConsoleDiagnosis, findings
from engine.doctor.text.reader import LogReader
from engine.run.history.columns import Columns
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.engine.doctor.metrics.curves import alerts, healthy

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
KEY = b"openai.AuthenticationError: Error code: 401 - Incorrect API key provided\n"
STEP = b"step:%d - critic/score/mean:0.5\n"
LOG = b"".join(
    [
        STEP % 1,
        KEY,
        STEP % 2,
        b"Traceback (most recent call last):\n",
        b'  File "trainer.py", line 12, in update_actor\n',
        OOM,
        b"the workers are gone\n",
    ]
)


def ids(found: list) -> list[str]:  # type: ignore[type-arg]
    return [one.id for one in found]


def make_run(folder: Path, *attempts: dict[str, int]) -> Run:
    run = Run(folder)
    for attempt in attempts or ({"number": 1},):
        run.attempt(attempt["number"]).path.mkdir(parents=True)
    manifest = {"v": 1, "kind": "grpo", "attempts": list(attempts) or [{"number": 1}]}
    jsonl.write_json(run.manifest_file, manifest)
    return run


def log_steps(run: Run, steps: int, exploded: int) -> None:
    """Steps of the first attempt, whose gradients explode from one of them on."""
    curves = healthy(2, steps)
    curves["actor/grad_norm"][exploded:] *= 1000
    for place in range(steps):
        metrics = {
            name: float(values[place]) for name, values in curves.items() if place < len(values)
        }
        record = {"v": 1, "step": 1 + place, "attempt": 1, "t": 1.0, "metrics": metrics}
        jsonl.append(run.train_log, record)


@given(cuts=st.lists(st.integers(0, len(LOG)), max_size=6))
def test_looks_at_a_growing_log_end_where_one_look_at_the_whole_does(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("log") / "console.log"
    doctor = ConsoleDiagnosis(path)
    for end in sorted(cuts):
        path.write_bytes(LOG[:end])
        doctor.findings(ended=False)
    path.write_bytes(LOG)
    reader = LogReader()
    reader.feed(LOG)
    reader.finish()
    assert doctor.findings(ended=True) == findings(reader, str(path))


def test_a_torn_last_line_is_read_once_it_is_whole_or_the_run_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_bytes(STEP % 1 + OOM.rstrip(b"\n"))
    doctor = ConsoleDiagnosis(path)
    assert doctor.findings(ended=False) == []
    assert ids(doctor.findings(ended=True)) == ["cuda_oom_training.oom"]


def test_a_log_that_was_cut_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_bytes(STEP % 1 + OOM)
    doctor = ConsoleDiagnosis(path)
    assert ids(doctor.findings(ended=False)) == ["cuda_oom_training.oom"]
    path.write_bytes(STEP % 1)
    assert doctor.findings(ended=False) == []


def test_a_log_that_another_one_took_the_place_of_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_bytes(STEP % 1 + OOM)
    doctor = ConsoleDiagnosis(path)
    doctor.findings(ended=False)
    other = tmp_path / "other.log"
    other.write_bytes(STEP % 1 + KEY + STEP % 2 * 20)
    other.replace(path)
    assert ids(doctor.findings(ended=False)) == ["judge_auth"]


def test_a_log_that_is_not_there_or_no_file_tells_nothing(tmp_path: Path) -> None:
    assert ConsoleDiagnosis(tmp_path / "none.log").findings(ended=True) == []
    assert ConsoleDiagnosis(tmp_path).findings(ended=True) == []


def test_who_no_longer_waits_is_not_read_for_any_further(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_bytes(OOM)
    doctor = ConsoleDiagnosis(path)
    assert doctor.findings(ended=False, stopped=lambda: True) == []
    assert ids(doctor.findings(ended=False)) == ["cuda_oom_training.oom"]


def test_a_new_attempt_is_asked_about_its_own_console(tmp_path: Path) -> None:
    run = make_run(tmp_path, {"number": 1}, {"number": 2, "from_step": 1})
    run.attempt(1).console.write_bytes(OOM)
    run.attempt(2).console.write_bytes(STEP % 2)
    doctor = LiveDoctor(run)
    first, second = RunState("running", attempt=1), RunState("running", attempt=2)
    assert ids(doctor.diagnose(first, Columns())) == ["cuda_oom_training.oom"]
    assert doctor.diagnose(second, Columns()) == []


def test_a_follower_says_what_diagnose_says(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    log_steps(run, 40, exploded=20)
    run.attempt(1).console.write_bytes(LOG)
    write_state(run, RunState("failed", step=40, ended=2e9))
    state, result = RunFollower(run).diagnose()
    assert state.state == "failed"
    assert result == diagnose_run(run) != []


def test_what_an_attempt_did_in_vain_is_no_trouble_of_the_next(tmp_path: Path) -> None:
    run = make_run(tmp_path, {"number": 1}, {"number": 2, "from_step": 20})
    log_steps(run, 40, exploded=20)
    write_state(run, RunState("running", attempt=2, step=20, heartbeat=2e9))
    assert alerts(RunFollower(run).diagnose()[1]) == ["kl_or_grad_blowup.gradient"]
    assert alerts(RunFollower(run, since_attempt=2).diagnose()[1]) == []


def test_a_run_whose_folder_is_deleted_meanwhile_tells_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    write_state(run, RunState("running", heartbeat=2e9))
    doctor = RunFollower(run)
    doctor.diagnose()
    (tmp_path / "run").rename(tmp_path / "gone")
    state, result = doctor.diagnose()
    assert (state.state, result) == ("lost", [])
