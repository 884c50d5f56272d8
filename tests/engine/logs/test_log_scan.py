"""Reading all of a log: what it holds and which lines match, in a process of its own."""

from __future__ import annotations

import threading
from pathlib import Path

from engine.logs.log_file import LogFile, Offsets
from engine.logs.log_query import Query
from engine.logs.log_scan import PIECE, Found, Job, Scan, follow, scan
from engine.logs.log_survey import Survey

STEP = (
    b"\x1b[36m(TaskRunnerV1 pid=7)\x1b[0m step:%d - timing_s/step:1.5 - training/global_step:%d\n"
)
ERROR = b"(WorkerDict pid=9) ValueError: rank %d is lost\n"


def write(path: Path, steps: int, filler: bytes = b"") -> LogFile:
    with path.open("wb") as log:
        for step in range(1, steps + 1):
            log.write(STEP % (step, step) + filler)
            if step % 100 == 0:
                log.write(ERROR % step)
    return LogFile.open(path)


def surveyed(file: LogFile, job: Job) -> Survey:
    survey = Survey()
    for result in scan(file, job):
        survey.add(result)
    return survey


def hits(file: LogFile, job: Job) -> list[int]:
    result = Offsets()
    for piece in scan(file, job):
        if "from" in piece:
            result.replace(piece["from"], piece["to"], piece["hits"])
    return list(result)


def test_a_survey_knows_lines_steps_errors_and_sources(tmp_path: Path) -> None:
    file = write(tmp_path / "log", 300, b"x" * 9000 + b"\n")
    assert file.size > 2 * PIECE
    survey = surveyed(file, Job(file.size))
    lines = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    assert survey.line_count() == len(lines) == 603
    assert survey.sources == {"TaskRunnerV1 pid=7": 300, "driver": 300, "WorkerDict pid=9": 3}
    assert len(survey.steps) == 300 and len(survey.errors) == 3
    start = 0
    for number, line in enumerate(lines, start=1):
        assert survey.line_number(file, start) == number
        assert survey.offset_of_line(file, number) == start
        start += len(line)


def test_a_step_is_found_by_its_line_alone(tmp_path: Path) -> None:
    file = write(tmp_path / "log", 50)
    survey = surveyed(file, Job())
    place = survey.offset_of_step(12)
    assert place is not None
    assert b" step:12 - " in file.read(place, file.line_end(place))
    assert survey.step_at(place) == 12
    assert survey.step_at(place - 1) == 11
    assert survey.offset_of_step(51) is None


def test_of_a_step_that_was_logged_again_the_latest_line_counts(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"step:1 - a:1\nstep:2 - a:1\nstep:2 - a:2\n")
    survey = surveyed(LogFile.open(tmp_path / "log"), Job())
    assert survey.offset_of_step(2) == 26


def test_a_step_behind_a_progress_bar_on_the_same_line_is_found(tmp_path: Path) -> None:
    bar = "\rEpoch 1/2:  {0:2}%|██▎  | {0}/99 [00:0{0}<00:18,  1.94it/s, loss=[1.2]]"
    redrawn = "".join(bar.format(share) for share in range(9)) * 9
    lines = [
        "step:1 - train/loss:6.8",
        bar.format(1) + "step:2 - train/loss:6.7",
        redrawn + bar.format(2) + "step:3 - train/loss:6.6",
        "(TaskRunner pid=7) " + bar.format(3) + " step:4 - train/loss:6.5",
        bar.format(4) + "words of step:5 - they are no metrics",
        "a sample [01:02]step:6 - is text as well" + bar.format(5),
    ]
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    survey = surveyed(file := LogFile.open(tmp_path / "log"), Job())
    known = [survey.offset_of_step(step) for step in range(1, 7)]
    starts = [survey.offset_of_line(file, number) for number in range(1, 5)]
    assert known == [*starts, None, None]
    assert survey.step_at(file.size) == 4


def test_line_numbers_are_unknown_until_everything_was_read(tmp_path: Path) -> None:
    file = write(tmp_path / "log", 5)
    survey = Survey()
    assert survey.line_number(file, 0) is None
    assert survey.line_count() is None
    assert survey.offset_of_line(file, 3) is None


def test_the_nearest_pieces_come_first_and_together_they_are_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "log", 400, b"x" * 9000 + b"\n")
    query = Query(("global_step",))
    whole = hits(file, Job(0, upwards_first=False, query=query))
    assert len(whole) == 400
    for origin in (0, 1, PIECE, PIECE + 5, file.size // 2, file.size):
        for upwards in (True, False):
            assert hits(file, Job(origin, upwards, query)) == whole
    first = next(scan(file, Job(file.size, upwards_first=True, query=query)))
    assert first["to"] == file.size


def test_new_lines_are_searched_with_the_line_that_was_torn(tmp_path: Path) -> None:
    path, job = tmp_path / "log", Job(query=Query(("lost",)))
    path.write_bytes(b"nothing\nrank is lo")
    file = LogFile.open(path)
    assert hits(file, job) == []
    with path.open("ab") as log:
        log.write(b"st\nlost again\n")
    gained = follow(file, 18, job)
    assert gained is not None and gained["hits"] == [8, 21]
    assert follow(file, gained["done"], job) is None


def test_large_growth_is_searched_in_several_polls(tmp_path: Path) -> None:
    path, job = tmp_path / "log", Job(query=Query(("step",)))
    path.write_bytes(b"")
    file = LogFile.open(path)
    path.write_bytes(b"step " * 10 + b"\n" + b"x" * (17 * PIECE) + b"\nlast step\n")
    first = follow(file, 0, job)
    assert first is not None and first["hits"] == [0] and first["done"] < path.stat().st_size
    second = follow(file, first["done"], job)
    assert second is not None and second["done"] == path.stat().st_size
    assert second["hits"][-1] == path.stat().st_size - 10


def collect(found: Scan, into: list[Found], done: threading.Event) -> None:
    for piece in found.results():
        into.append(piece)
        if "done" in piece:
            done.set()


def test_a_separate_process_scans_and_follows_until_it_is_cancelled(tmp_path: Path) -> None:
    file = write(tmp_path / "log", 20)
    running = Scan(file, Job(query=Query(("step:20 ",))))
    pieces: list[Found] = []
    done = threading.Event()
    reader = threading.Thread(target=collect, args=(running, pieces, done), daemon=True)
    reader.start()
    assert done.wait(180)
    assert sum(len(piece.get("hits", ())) for piece in pieces) == 1
    done.clear()
    with (tmp_path / "log").open("ab") as log:
        log.write(STEP % (20, 20))
    assert done.wait(180)
    running.cancel()
    reader.join(180)
    assert not reader.is_alive()
    assert pieces[-1]["hits"] == [file.size]


def test_a_pattern_that_never_ends_can_be_cancelled(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a" * 60 + b"!\n")
    running = Scan(LogFile.open(tmp_path / "log"), Job(query=Query(("(a+)+b",))))
    pieces: list[Found] = []
    reader = threading.Thread(target=collect, args=(running, pieces, threading.Event()))
    reader.start()
    running.cancel()
    reader.join(180)
    assert not reader.is_alive() and pieces == []
