"""How quickly error lines are found in a console log, beside ``grep`` and ``rg``, in CPU time.

    python benchmarks/error_lines.py [MEGABYTES]

The log is that of ``log_view.py`` (250 MB): verl's metrics, two lines a step, and one error. Ours
reads it in blocks as the log view does and says which lines are errors. The peers only count the
lines that hold one of the same words, in any case, which proves nothing yet. Best of three.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from log_view import write_log

from engine.logs.log_lines import ERROR_WORDS, errors_in

MB = 1_000_000
BLOCK = 1 << 20
BYTES_A_STEP = 4_130
REPEATS = 3


def find_errors(path: Path) -> tuple[float, int]:
    """CPU seconds, and how many error lines there are."""
    started, found, left = time.process_time(), 0, b""
    with path.open("rb") as log:
        while block := log.read(BLOCK):
            whole, _, left = (left + block).rpartition(b"\n")
            found += len(errors_in(whole))
    return time.process_time() - started, found + len(errors_in(left))


def count_by(program: str, path: Path) -> tuple[float, int]:
    """CPU seconds of ``program``, and how many lines it counted."""
    words = "|".join(re.escape(word.decode()) for word in ERROR_WORDS)
    flags = ["-c", "-i", "-E"] if program == "grep" else ["-c", "-i"]
    command = [program, *flags, words, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        counted = process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return usage.ru_utime + usage.ru_stime, int(counted or 0)


def main() -> int:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 250
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "console.log"
        write_log(log, size * MB // BYTES_A_STEP)
        megabytes = log.stat().st_size / MB
        print(f"{megabytes:.0f} MB; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        print("| program | MB/s of CPU | lines |\n|---|---|---|")
        tries = [find_errors(log) for _ in range(REPEATS)]
        print(f"| ours | {megabytes / min(tries)[0]:.0f} | {tries[0][1]} |", flush=True)
        for program in filter(shutil.which, ("grep", "rg")):
            tries = [count_by(program, log) for _ in range(REPEATS)]
            print(f"| {program} -c -i | {megabytes / min(tries)[0]:.0f} | {tries[0][1]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
