"""The project's own tests as a check."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from engine.checks import testsuite
from engine.checks.check import Check, Subject
from tests.engine.checks.project import Project
from tests.waiting import is_over, wait_for

pytestmark = pytest.mark.waits

# Plugins of the outer pytest only cost time here.
ENVIRONMENT = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
PASSING = "def test_one(): pass\ndef test_two(): pass\n"
FAILING = "def test_one(): pass\ndef test_two(): assert False\n"
SKIPPING = "import pytest\ndef test_one(): pass\ndef test_two(): pytest.skip()\n"


def answer(project: Project, **variables: str) -> Check:
    """The check of a checkout in ``project.root / "checkout"``."""
    subject = Subject(project.config(), {**ENVIRONMENT, **variables}, project.root / "runs")
    return testsuite.check(subject, project.root / "checkout")


def write_tests(source: str) -> Path:
    folder = Path("checkout/tests")
    folder.mkdir(parents=True)
    # As in the program's own settings: a second -q would drop the counts.
    Path("checkout/pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "-q"\n')
    (folder / "test_small.py").write_text(source)
    return folder


@pytest.mark.parametrize(
    ("source", "counts"), [(PASSING, "2 passed"), (SKIPPING, "1 passed, 1 skipped")]
)
def test_passing_tests_are_counted(project: Project, source: str, counts: str) -> None:
    write_tests(source)
    assert answer(project) == Check("tests", "ok", counts)


def test_a_failing_test_is_counted_and_named(project: Project) -> None:
    write_tests(FAILING)
    check = answer(project)
    assert check.status == "fail"
    assert check.message == (
        "1 failed, 1 passed; stopped at the first failure, tests/test_small.py::test_two"
    )


@pytest.mark.waits
def test_tests_that_do_not_end_are_killed_with_what_they_started(project: Project) -> None:
    started = project.root / "pid"
    write_tests(
        "import pathlib, subprocess\n"
        "def test_passes(): pass\n"
        "def test_hangs():\n"
        "    child = subprocess.Popen(['sleep', '600'])\n"
        f"    pathlib.Path({str(started)!r}).write_text(str(child.pid))\n"
        "    child.wait()\n"
    )
    subject = Subject(project.config(), ENVIRONMENT, project.root / "runs")
    result = testsuite.check(subject, project.root / "checkout", patience_s=4)
    assert result.status == "fail"
    ended = "the tests did not end within 4 s"
    # On a machine that is too busy for a start within that time there is nothing to kill.
    progress = "; 1 had passed or been skipped" if started.exists() else ""
    assert result.message == f"{ended}{progress}"
    for pid in [int(started.read_text())] if started.exists() else []:
        wait_for(partial(is_over, pid))


def test_a_program_without_its_source_says_so(project: Project) -> None:
    check = answer(project)
    assert check.status == "skip"
    assert check.message.endswith("only a checkout of the source has them")


def test_tests_see_no_variable_home_run_or_result_of_the_user(project: Project) -> None:
    write_tests(
        "import os, pathlib\n"
        "def test_variables():\n"
        "    secret = {n: v for n, v in os.environ.items() if 'mine' in v}\n"
        "    assert not secret\n"
        "def test_folders():\n"
        "    here = pathlib.Path.cwd()\n"
        "    assert not [n for n in ('runs', 'checkpoints', '.env') if (here / n).exists()]\n"
        "    for place in (here / 'runs', pathlib.Path.home() / 'runs'):\n"
        "        place.mkdir()\n"
    )
    for name in ("runs", "checkpoints"):
        Path("checkout", name).mkdir()
    Path("checkout/.env").write_text("KEY=mine")
    check = answer(
        project,
        GRUBRICS_RUNS=str(project.root / "mine"),
        HOME=str(project.root / "mine"),
        WANDB_API_KEY="mine",
        HF_TOKEN="mine",
        OPENAI_API_KEY="mine",
        MY_OWN_JUDGE="mine",
        XDG_CACHE_HOME="mine",
        RAY_ADDRESS="mine",
        PYTEST_ADDOPTS="-k mine",
    )
    assert check == Check("tests", "ok", "2 passed")
    assert list(Path("checkout/runs").iterdir()) == []
    assert not (project.root / "mine").exists()


@pytest.mark.parametrize("source", ["", "import pytest\n@pytest.mark.slow\ndef test_x(): pass\n"])
def test_a_project_with_slow_tests_only_is_skipped(project: Project, source: str) -> None:
    write_tests(source)
    assert answer(project).status == "skip"
