"""Read all of a log in a separate process, to survey it or to find the lines that match.

The screen stays responsive because nothing here shares its interpreter lock. A regular expression
that never ends can be stopped: ``re`` cannot be interrupted, a process can.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.logs.log_file import BLOCK, LogFile
from engine.logs.log_lines import errors_in, sources_in, steps_in
from engine.logs.log_query import Query

PIECE = 4 * BLOCK
"""Bytes read between two results."""

MAX_HITS = 2_000_000
_POLL_S = 0.2
_PATIENCE_S = 60

Found = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """``query`` looks for lines; without one the whole log is surveyed.

    ``origin`` is where to begin: downwards to the end and then upwards from there, or upwards
    first. Then the file is followed.
    """

    origin: int = 0
    upwards_first: bool = True
    query: Query | None = None


class Scan:
    """A scanning process. Call ``results`` in a thread: it blocks. Any thread may ``cancel``."""

    def __init__(self, file: LogFile, job: Job) -> None:
        root = str(Path(__file__).parents[2])
        code = f"import sys; sys.path.append({root!r}); from {__name__} import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-EP", "-c", code, str(file.descriptor), json.dumps(asdict(job))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[file.descriptor],
        )

    def results(self) -> Iterator[Found]:
        """The results from byte ``from`` to ``to``, piece by piece, until cancelled.

        A later piece replaces the results of the same bytes. Ends early when one piece takes longer
        than a minute.
        """
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):
            for line in self._process.stdout:
                yield json.loads(line)

    def cancel(self) -> None:
        self._process.kill()
        self._process.wait()


def scan(file: LogFile, job: Job) -> Iterator[Found]:
    """The results of ``job`` in the file as it is now, piece by piece, and ``done`` at the end."""
    examine = _survey if job.query is None else _matches(job.query)
    for start, end in _pieces(file.size, job.origin, job.upwards_first):
        first, last = file.first_line(start), file.first_line(end)
        if first < last:
            yield {"from": first, "to": last, **examine(file, first, last)}
    yield {"done": file.size}


def follow(file: LogFile, done: int, job: Job) -> Found | None:
    """The results in what was added after ``done`` bytes, and in the line that was torn then."""
    size = os.fstat(file.descriptor).st_size
    if size <= done:
        return None
    file.grow(size)
    start = file.line_start(done)
    # A writer may be faster than a poll: more than this is left for the next one.
    file.grow(min(size, done + 16 * PIECE))
    examine = _survey if job.query is None else _matches(job.query)
    return {"from": start, "to": file.size, **examine(file, start, file.size), "done": file.size}


def main() -> None:
    """The scanning process. Ends when nobody reads its results or holds its input open."""
    file, job = LogFile(int(sys.argv[1])), _job(json.loads(sys.argv[2]))
    if job.query is None:
        os.nice(10)
    done, hits = file.size, 0
    # By default the signal ends the process, even within an expression that never ends. There may
    # be nobody left to cancel it.
    signal.alarm(_PATIENCE_S)
    for piece in scan(file, job):
        signal.alarm(_PATIENCE_S)
        _print(piece)
        hits += len(piece.get("hits", ()))
        if hits > MAX_HITS:
            _print({"full": MAX_HITS})
            return
    while not select.select([sys.stdin], [], [], _POLL_S)[0]:
        signal.alarm(_PATIENCE_S)
        if gained := follow(file, done, job):
            done = file.size
            _print(gained)


def _job(raw: dict[str, Any]) -> Job:
    query = raw["query"]
    return Job(
        raw["origin"],
        raw["upwards_first"],
        Query(tuple(query["patterns"]), query["source"]) if query else None,
    )


def _print(piece: Found) -> None:
    try:
        print(json.dumps(piece, separators=(",", ":")), flush=True)
    except BrokenPipeError:
        os._exit(0)


def _pieces(size: int, origin: int, upwards_first: bool) -> Iterator[tuple[int, int]]:
    """Ranges that cover the file, the nearest to ``origin`` first."""
    middle = min(origin, size) // PIECE * PIECE
    starts = list(range(0, size, PIECE))
    above, below = [s for s in starts if s < middle], [s for s in starts if s >= middle]
    if upwards_first:
        # The piece that holds the origin is the first one on the way up.
        ordered = [*below[:1], *reversed(above), *below[1:]]
    else:
        ordered = [*below, *reversed(above)]
    for start in ordered:
        yield start, min(start + PIECE, size)


def _matches(query: Query) -> Callable[[LogFile, int, int], Found]:
    def examine(file: LogFile, start: int, end: int) -> Found:
        return {"hits": [start + offset for offset in query.search(file.read(start, end))]}

    return examine


def _survey(file: LogFile, start: int, end: int) -> Found:
    """Newlines in each block, and the lines that log a step or an error."""
    data = file.read(start, end)
    blocks = range(start // BLOCK, (max(start, end - 1)) // BLOCK + 1)
    counts = {n: file.block(n).count(b"\n") for n in blocks}
    return {
        "newlines": counts,
        "steps": [(step, start + offset) for step, offset in steps_in(data)],
        "errors": [start + offset for offset in errors_in(data)],
        "sources": sources_in(data),
    }
