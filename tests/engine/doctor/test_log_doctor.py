"""A log that was not launched here: at every moment told as the whole would be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.doctor.diagnose import diagnose_file
from engine.doctor.log_doctor import LogDoctor, source_of, source_of_external
from engine.logs.formats.external_run import open_external
from tests.engine.doctor.metrics.curves import alerts, healthy
from tests.engine.logs.formats.samples import history, trainer_state, verl_line, wandb_log

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
STEPS = 40


def exploding(steps: int = STEPS) -> list[dict[str, float]]:
    """Metrics of steps whose gradients explode from the middle on."""
    curves = healthy(2, steps)
    curves["actor/grad_norm"][steps // 2 :] *= 1000
    return [
        {name: float(values[place]) for name, values in curves.items() if place < len(values)}
        for place in range(steps)
    ]


CONSOLE = b"".join(
    [
        *(verl_line(n, one).encode() + b"\n" for n, one in enumerate(exploding(), start=1)),
        b"Traceback (most recent call last):\n",
        b'  File "trainer.py", line 12, in update_actor\n',
        OOM,
    ]
)
RECORDS = b"".join(
    json.dumps({"step": n, "data": one}).encode() + b"\n"
    for n, one in enumerate(exploding(), start=1)
)


def following(path: Path) -> LogDoctor:
    return LogDoctor(source_of_external(open_external(path)))


@pytest.mark.sample(1)
@pytest.mark.long
@pytest.mark.parametrize("content", [CONSOLE, RECORDS], ids=["console", "numbers"])
@settings(max_examples=30)  # each is a diagnosis of the whole log
@given(cuts=st.lists(st.floats(0.2, 1), max_size=4))
def test_looks_at_a_growing_log_end_where_diagnose_does(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cuts: list[float]
) -> None:
    path = tmp_path_factory.mktemp("log") / "night.log"
    path.write_bytes(content[: len(content) // 5])
    doctor = following(path)
    for share in sorted(cuts):
        path.write_bytes(content[: round(share * len(content))])
        doctor.diagnose()
    path.write_bytes(content)
    assert doctor.diagnose(ended=True) == diagnose_file(path) != []


def test_a_console_tells_by_its_text_and_by_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    path.write_bytes(CONSOLE)
    assert alerts(diagnose_file(path)) == ["cuda_oom_training.oom", "kl_or_grad_blowup.gradient"]


def test_a_last_line_without_an_end_is_read_once_nothing_is_added_to_it(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    path.write_bytes(b"step:1 - critic/score/mean:0.5\n" + OOM)
    doctor = following(path)
    assert doctor.diagnose() == []
    assert alerts(doctor.diagnose()) == ["cuda_oom_training.oom"]
    with path.open("ab") as log:
        log.write(b" GPU 0 has a total capacity of 39.56 GiB of which 1.20 GiB is free.\nbye\n")
    [finding] = doctor.diagnose()
    assert finding.evidence[0].values["total"] == "39.56 GiB"


def test_an_old_file_is_read_to_its_last_byte_at_once(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    path.write_bytes(b"step:1 - critic/score/mean:0.5\n" + OOM)
    os.utime(path, (1e9, 1e9))
    assert alerts(following(path).diagnose()) == ["cuda_oom_training.oom"]


def test_few_records_tell_once_nobody_has_written_any_for_long(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    path.write_text("{'loss': nan, 'grad_norm': nan, 'learning_rate': 2e-06, 'epoch': 0.1}\n")
    doctor = following(path)
    assert alerts(doctor.diagnose()) == []
    os.utime(path, (1e9, 1e9))
    assert alerts(doctor.diagnose()) == ["loss_nan"]


def test_numbers_that_were_written_anew_tell_nothing_of_before(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(RECORDS)
    doctor = following(path)
    assert alerts(doctor.diagnose()) == ["kl_or_grad_blowup.gradient"]
    path.write_bytes(RECORDS[: len(RECORDS) // 4])
    assert doctor.diagnose(ended=True) == diagnose_file(path)
    assert alerts(doctor.diagnose()) == []


def test_an_output_folder_of_hf_is_diagnosed_by_its_newest_state(tmp_path: Path) -> None:
    entries = [
        {"step": n, "loss": 0.5, "grad_norm": 0.5 if n < 20 else 500.0 * n} for n in range(1, 41)
    ]
    trainer_state(tmp_path / "checkpoint-40" / "trainer_state.json", entries)
    assert alerts(following(tmp_path).diagnose()) == ["kl_or_grad_blowup.gradient"]
    assert diagnose_file(tmp_path) == following(tmp_path).diagnose(ended=True)


def test_an_offline_wandb_run_tells_by_its_numbers_and_by_what_it_printed(tmp_path: Path) -> None:
    folder = tmp_path / "offline-run-20260131_140320-abc"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "output.log").write_bytes(OOM + b"\n")
    records = [history(_step=n, **one) for n, one in enumerate(exploding(), start=1)]
    (folder / "run-abc.wandb").write_bytes(wandb_log(records))
    findings = diagnose_file(folder)
    assert alerts(findings) == ["cuda_oom_training.oom", "kl_or_grad_blowup.gradient"]
    assert findings == following(folder).diagnose(ended=True)


def test_of_a_log_that_no_trainer_wrote_the_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"hello\n" + OOM)
    assert all(log.format.is_console for log in source_of(path).numbers)
    assert alerts(diagnose_file(path)) == ["cuda_oom_training.oom"]


def test_a_folder_that_tells_of_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file of a known format"):
        diagnose_file(tmp_path)


def test_a_file_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    path.write_bytes(CONSOLE)
    doctor = following(path)
    path.unlink()
    with pytest.raises(OSError, match="night"):
        doctor.diagnose()


def test_what_ray_may_recover_from_is_a_warning_while_the_log_grows(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    slow = "[2026-01-01 00:00:00,000 E 1 1] (raylet) worker_pool.cc:586: Some workers of the worker"
    path.write_text(f"{slow} process(7) have not registered within the timeout.\n")
    [growing] = LogDoctor(source_of(path)).diagnose()
    [ended] = diagnose_file(path)
    assert growing.id == ended.id == "ray_start_or_worker_died.slow"
    assert (growing.severity, ended.severity) == ("warning", "critical")
