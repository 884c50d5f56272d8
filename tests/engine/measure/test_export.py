"""An export that cannot be is refused before anything is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.base.errors import UsageError
from engine.measure.export import export, failure_of
from engine.measure.targets import Target
from engine.run.host.programs import own_module


def test_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    target = Target("run:1", "checkpoint", str(tmp_path), "0")
    with pytest.raises(UsageError, match="exists; name a folder that does not"):
        export(target, tmp_path, None, {})


def test_an_unknown_data_type_is_refused(tmp_path: Path) -> None:
    target = Target("run:1", "checkpoint", str(tmp_path), "0")
    with pytest.raises(UsageError, match="must be one of float32, bfloat16, float16"):
        export(target, tmp_path / "model", "float8", {})
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("code", "errors", "reason"),
    [
        (
            -9,
            "Loading weights: 100%",
            "by SIGKILL; the kernel does so if the memory is full",
        ),
        (-11, "", "its process was killed by SIGSEGV"),
        (2, "loading\nerror: no room", "no room"),
        (1, "", "exit code 1"),
    ],
)
def test_the_reason_of_a_failure_is_a_signal_or_the_last_line(
    code: int, errors: str, reason: str
) -> None:
    assert failure_of(code, errors).endswith(reason)


@pytest.mark.waits
def test_the_process_that_writes_ends_with_its_parent() -> None:
    writer = own_module("engine.train.export_model")
    program = (
        "import os, subprocess, sys\n"
        "print(subprocess.Popen([*sys.argv[1:], str(os.getpid())]).pid, flush=True)\n"
        "input()"
    )
    reads, holds = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", program, *writer], stdin=reads, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        try:
            parent.kill()
            assert psutil.wait_procs([child], timeout=60)[0] == [child]
        finally:
            for descriptor in (reads, holds):
                os.close(descriptor)
