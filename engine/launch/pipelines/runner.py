"""Run the stages of a pipeline: ``python -m engine.launch.pipelines.runner``, as the command of its
run.

Each stage is launched by the command that a person would type, as a run with its own supervisor.
The next one is launched when it has finished. A stage that does not finish ends the pipeline.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from engine.base.errors import UsageError
from engine.base.text import format_command
from engine.launch.pipelines.record import PlannedStage, Record, final_model
from engine.launch.pipelines.stages import MODEL
from engine.run.host.programs import own_module
from engine.run.run import ATTEMPT_DIR_VARIABLE, RUNS_VARIABLE, Run
from engine.run.state import RunState, observed_state
from engine.supervise.queue import end_phrase
from engine.supervise.stopping import stop_run

_POLL_S = 0.5
_PROGRAM = "grubrics-tui"


class StageError(Exception):
    """A stage did not finish. The final state of the pipeline quotes the message."""


class SupervisorLostError(Exception):
    """The supervisor of the pipeline has died, so nobody would see what is launched now."""


class Runner:
    """Runs the stages in their order. ``run`` is the pipeline's, ``parent`` its supervisor."""

    def __init__(self, run: Run, record: Record, parent: int) -> None:
        self._root, self._record, self._parent = run.path.parent, record, parent
        self._current: Run | None = None

    def run(self) -> None:
        """Run all stages. StageError for the first one that does not finish."""
        number = 0
        for planned in self._record.stages:
            if planned.is_skipped:
                _say(f"stage '{planned.stage.name}' is skipped")
                continue
            number, began = number + 1, time.monotonic()
            self._run_stage(planned)
            duration = time.monotonic() - began
            _say(f"stage {number} of {self._record.count} finished after {duration:.1f} s")

    def stop(self) -> None:
        """Stop the stage that is running, and wait for its end."""
        if self._current is not None and self._current.manifest_file.exists():
            _say(stop_run(self._current).message)

    def _run_stage(self, planned: PlannedStage) -> None:
        name = planned.stage.name
        run = self._current = Run(self._root / str(planned.run))
        words = planned.stage.launch_words(run.id, planned.stage.with_outputs(self._output))
        _say(f"stage '{name}'\n$ {format_command([_PROGRAM, *words])}")
        if (error := _launch(words, {**os.environ, RUNS_VARIABLE: str(self._root)})) is not None:
            raise StageError(f"stage '{name}' was not launched: {error}")
        state = self._wait(run)
        self._current = None
        if not state.went_well:
            raise StageError(f"stage '{name}': {end_phrase(run.id, state)}{_finding(run, state)}")

    def _output(self, name: str, output: str) -> str | None:
        """The run of a stage, or its final model. StageError if there is no such model."""
        run = self._record.run_of(name)
        if run is None or output != MODEL:
            return run
        folder = final_model(Run(self._root / run))
        if not folder.is_dir():
            raise StageError(f"the model of stage '{name}' is not there: {folder}")
        here = Path.cwd()  # Configs name what is inside relative to it.
        return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)

    def _wait(self, run: Run) -> RunState:
        while not (state := observed_state(run)).has_ended:
            if os.getppid() != self._parent:
                raise SupervisorLostError(f"run '{run.id}' continues, and no other stage follows")
            time.sleep(_POLL_S)
        return state


def _launch(words: Sequence[str], env: Mapping[str, str]) -> str | None:
    """Run grubrics-tui; returns the error of a launch that was refused, else None."""
    command = own_module("grubrics_tui", *_executed(words))
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, check=False, text=True
    )
    print(done.stderr, end="", file=sys.stderr, flush=True)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else f"exit code {done.returncode}"


def _executed(words: Sequence[str]) -> list[str]:
    """The words with this installation in place of the program after ``--``."""
    if "--" not in words:
        return list(words)
    start = words.index("--") + 1
    if words[start] != _PROGRAM:
        return list(words)
    return [*words[:start], *own_module("grubrics_tui", *words[start + 1 :])]


def _finding(run: Run, state: RunState) -> str:
    """The finding that explains why a stage failed, after its reason."""
    from engine.doctor.diagnose import diagnose_run  # Its numpy is for failures only.

    if state.word == "stopped":
        return ""
    findings = diagnose_run(run)
    return f" [{findings[0].title}]" if findings else ""


def _say(line: str) -> None:
    print(line, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parent = os.getppid()
    run = Run(Path(os.environ[ATTEMPT_DIR_VARIABLE]).parent)
    record = Record.of(run.read_manifest())
    if record is None:
        print(f"UsageError: {run.manifest_file}: no pipeline that this version can run", flush=True)
        return 2
    runner = Runner(run, record, parent)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        runner.run()
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        runner.stop()
        return 128 + signal.SIGINT
    except (StageError, UsageError, SupervisorLostError) as error:
        # Formatted as the last line of an exception: the run's final state quotes that.
        _say(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
