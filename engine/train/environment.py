"""The processes of a run: variables that verl, Ray and torch read in each of them, deterministic
algorithms, and the signals that end it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from engine.base import files
from engine.base.quantities import format_stamp
from engine.run.host.programs import keep_folder_last, search_folder_last
from engine.run.index import cache_folder

PLUGIN = "engine.train.plugin"
COMPILED = "TORCHINDUCTOR_CACHE_DIR"


def prepare(env: MutableMapping[str, str], device: str) -> None:
    """Set what a run on ``device`` needs; values that the user set stay."""
    _append(env, "VERL_USE_EXTERNAL_MODULES", PLUGIN, ",")
    keep_folder_last(env)
    if env is os.environ:
        search_folder_last()
    # Whole console lines: Ray would fold similar ones of many workers into "repeated 8x".
    env.setdefault("RAY_DEDUP_LOGS", "0")
    env.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    env.setdefault("TOKENIZERS_PARALLELISM", "true")
    if device == "cpu":
        env["VERL_PLATFORM"] = "cpu"
        # verl registers its FSDP engine for "cuda" and "npu"; the class itself is portable.
        env["VERL_ENGINE_DEVICE"] = "cuda"
        # Many processes share few cores: more threads each makes steps slower and uneven.
        env.setdefault("OMP_NUM_THREADS", "1")
        env.setdefault("TQ_NUM_THREADS", "1")


def keep_compiled_code_private(env: MutableMapping[str, str], fallback: Path) -> None:
    """Have torch keep compiled code in a folder that only this user can write.

    Its default is ``/tmp/torchinductor_NAME``, which anybody can create first, and its content is
    loaded: pickles and shared objects. ``fallback`` is used if the user has no cache folder.
    """
    if env.get(COMPILED):
        return
    cache = cache_folder()
    for folders in ((cache, cache / "torchinductor"), (fallback,)):
        with suppress(OSError):
            for folder in folders:
                files.make_private(folder)
            env[COMPILED] = str(folders[-1])
            return


def attempt_dir(env: MutableMapping[str, str], kind: str) -> Path:
    """Return the attempt's directory: the supervisor's, or a new one for a run by hand."""
    manual = f"runs/manual-{kind}-{format_stamp()}/attempt_1"
    path = Path(env.get("GRUBRICS_ATTEMPT_DIR") or manual).resolve()
    path.mkdir(parents=True, exist_ok=True)
    env["GRUBRICS_ATTEMPT_DIR"] = str(path)
    env.setdefault("GRUBRICS_RUN_ID", path.parent.name)
    env.setdefault("VERL_FILE_LOGGER_PATH", str(path / "metrics.jsonl"))
    return path


def _append(env: MutableMapping[str, str], name: str, value: str, separator: str) -> None:
    parts = [part for part in env.get(name, "").split(separator) if part]
    if value not in parts:
        env[name] = separator.join([*parts, value])


def require_variables(wanted: Mapping[str, str]) -> None:
    """Start this program again, with the same process ID, unless it has these variables.

    Python reads its hash seed only when it starts.
    """
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        sys.stdout.flush()
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **wanted})


def use_deterministic_algorithms() -> None:
    """Let torch choose deterministic algorithms, and warn of operations that have none."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


class StopSignals:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt and remembers which one came.

    Of all exceptions Ray's blocking calls let only KeyboardInterrupt and SystemExit through.
    """

    def __init__(self) -> None:
        self.received = signal.SIGINT
        self.listen()

    def listen(self) -> None:
        """Repeat after ``ray.init``, which installs its own handlers."""
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, self._stop)

    def ignore(self) -> None:
        """While tidying up: a second signal must not leave processes behind."""
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_IGN)

    @property
    def exit_code(self) -> int:
        return 128 + self.received

    def _stop(self, signum: int, _frame: FrameType | None) -> NoReturn:
        self.received = signal.Signals(signum)
        raise KeyboardInterrupt
