"""The project's own tests as a check."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.preflight.check import Check
from engine.preflight.checklist import run_checks
from tests.engine.preflight.project import Project

# Plugins of the outer pytest only cost time here.
ENVIRONMENT = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
PASSING = "def test_one(): pass\ndef test_two(): pass\n"
FAILING = "def test_one(): pass\ndef test_two(): assert False\n"


def answer(project: Project) -> Check:
    checks = run_checks(project.recipe(), env=ENVIRONMENT, tests=True, runs=project.root)
    return list(checks)[-1]


def write_tests(source: str) -> None:
    Path("tests").mkdir()
    Path("tests/test_small.py").write_text(source)


def test_passing_tests_are_counted(project: Project) -> None:
    write_tests(PASSING)
    assert answer(project) == Check("tests", "ok", "2 passed")


def test_a_failing_test_is_counted_and_named(project: Project) -> None:
    write_tests(FAILING)
    check = answer(project)
    assert check.status == "fail"
    assert check.message == "1 failed, 1 passed; first: tests/test_small.py::test_two"


def test_a_project_without_tests_is_skipped(project: Project) -> None:
    assert answer(project).status == "skip"


@pytest.mark.parametrize("source", ["", "import pytest\n@pytest.mark.slow\ndef test_x(): pass\n"])
def test_a_project_with_slow_tests_only_is_skipped(project: Project, source: str) -> None:
    write_tests(source)
    assert answer(project).status == "skip"
