"""A log format of another package that fails: one line names the package, and others still work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.doctor.diagnose import diagnose_file
from engine.logs.formats.detect import detect, find_likely_logs, load_formats
from engine.logs.formats.external_run import read_steps
from tests.plugins import InstallPlugin

CODE = """
from engine.logs.formats.format import LineFormat, Parser
from engine.run.history.train_log import Step

class Torn(Parser):
    def feed(self, lines):
        return [Step(int(line.split()[1]), 1, 0.0, {"loss": 1.0}) for line in lines]

class TornFormat(LineFormat):
    key, name = "torn", "torn log"
    is_console = True
    step_pattern = rb"torn (\d+)"
    file_names = ("*.torn",)

    def matches(self, sample):
        if sample.head.startswith(b"odd"):
            raise ZeroDivisionError("no luck")
        return sample.head.startswith(b"torn")

    def parser(self, path):
        return Torn()

TORN = TornFormat()
"""


@pytest.fixture(autouse=True)
def _installed(install_plugin: InstallPlugin) -> Iterator[None]:
    install_plugin("torn_log", CODE, "[grubrics.log_formats]\ntorn = torn_log:TORN\n")
    load_formats.cache_clear()
    yield
    load_formats.cache_clear()


def test_a_failure_while_reading_names_the_package(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("torn 1\ntorn x\n")
    assert detect(log).format.key == "torn"
    for read in (lambda: list(read_steps(log)), lambda: diagnose_file(log)):
        with pytest.raises(UsageError, match=r"train\.log: log format 'torn' of torn_log 1\.2 fai"):
            read()


def test_its_files_are_found_in_a_folder_by_the_names_that_it_declares(tmp_path: Path) -> None:
    for name in ("a.torn", "a.other"):
        (tmp_path / name).write_text("torn 1\n")
    assert find_likely_logs(tmp_path) == [tmp_path / "a.torn"]
    assert detect(tmp_path).path == tmp_path / "a.torn"


def test_a_failure_while_recognizing_leaves_the_file_to_other_formats(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("odd\nstep:1 - actor/loss:0.5 - critic/score/mean:0.1\n")
    assert detect(log).format.key == "verl"


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ('b""', "step_pattern is missing"),
        ('rb"torn ("', "step_pattern is invalid"),
        ('rb"(torn) (\\d+)"', "at most one group"),
        ('r"torn (\\d+)"', "pattern of bytes"),
    ],
)
def test_a_console_format_whose_steps_cannot_be_counted_is_skipped(
    install_plugin: InstallPlugin, pattern: str, fault: str
) -> None:
    code = CODE.replace('"torn"', '"uncounted"').replace('rb"torn (\\d+)"', pattern)
    assert pattern in code
    install_plugin("uncounted", code, "[grubrics.log_formats]\nuncounted = uncounted:TORN\n")
    load_formats.cache_clear()
    (problem,) = [line for line in load_formats().problems if "uncounted" in line]
    assert fault in problem
