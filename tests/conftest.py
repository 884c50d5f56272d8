"""Tests that pass or fail for everybody alike: the same examples in every run, and nothing of the
user's shell or home: no runs folder, key, token, cache or settings. No hub is asked for a model."""

from __future__ import annotations

import functools
import gc
import inspect
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from engine.checks import environment, machine
from engine.checks.testsuite import environment_of_tests
from tests.paths import ROOT

# Before anything reads a variable; the folder goes with this process.
_HOME = tempfile.TemporaryDirectory(prefix="grubrics-home-", ignore_cleanup_errors=True)
_OWN = environment_of_tests(os.environ, Path(_HOME.name))
for _name in [name for name in os.environ if name not in _OWN]:
    del os.environ[_name]
os.environ.update(_OWN)
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"

# Rewriting the assertions of 300 files takes longer than a third of the tests, and the tests start
# hundreds of programs: byte code is written even where the user's environment says not to.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("brief", derandomize=True, deadline=None, max_examples=8)
settings.register_profile("thorough", derandomize=True, deadline=None)
settings.load_profile("steady")


@pytest.fixture(scope="session", autouse=True)
def _state_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The key that vouches for the runs of the tests is not the one of who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_runs_of_other_tests() -> Iterator[None]:
    """The check ``machine`` warns of every run on this machine, also of the tests beside this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "marked", lambda: iter(()))
        yield


@dataclass(frozen=True)
class _Package:
    """What the preflight checks ask of an installed package."""

    version: str
    requires: tuple[str, ...]


@pytest.fixture(scope="session", autouse=True)
def _packages_are_read_once() -> Iterator[None]:
    """Nothing is installed while the tests run, and every preflight would read all of it again."""
    find, requirements = environment.find_installed, environment._requirements

    @functools.cache
    def packages() -> dict[str, _Package]:
        return {
            name: _Package(package.version, tuple(package.requires or ()))
            for name, package in find().items()
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "find_installed", packages)
        read = functools.cache(lambda package: tuple(requirements(package)))
        patch.setattr(environment, "_requirements", read)
        yield


_LONGEST_FIRST = (
    "tests/e2e/test_training.py",  # makes the SFT model
    "tests/engine/train/test_training.py",  # needs none, like the next file
    "tests/e2e/test_curriculum.py",
    "tests/e2e/test_doctor_faults.py",
    "tests/e2e/test_own_data.py",
    "tests/e2e/test_cockpit.py",
    "tests/e2e/test_faults.py",
    "tests/e2e/test_ray_jobs.py",
    "tests/e2e/test_secrets.py",
    "tests/e2e/test_evaluate.py",
    "tests/e2e/test_ablate.py",
    "tests/e2e/test_small_runs.py",
    "tests/e2e/test_resume_sft.py",
    "tests/e2e/test_ssh.py",
)
"""Files that train. `make training` gives whole files to its workers. In this order no worker waits
for the tiny SFT model, and all end together. pytest ignores the order of nested paths."""
_TRAINING_TIMEOUT_S = 1800


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--brief", action="store_true", help="run two cases of a parametrized test")


def pytest_configure(config: pytest.Config) -> None:
    """Name a path that does not exist. With workers, pytest runs nothing and says nothing."""
    for argument in config.args:
        path = argument.split("::")[0]
        if not Path(config.invocation_params.dir, path).exists():
            raise pytest.UsageError(f"no file or folder: {path}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the files that train, and set the markers that follow from what a test is: a coroutine
    of the screen's tests drives a screen, and what tests the trainer imports it."""
    for item in items:
        path = item.path.relative_to(ROOT)
        if "grubrics_tui" in path.parts and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.waits)
        if path.parts[:3] == ("tests", "engine", "train"):
            item.add_marker(pytest.mark.trainer)
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(_TRAINING_TIMEOUT_S))
    _mark_beyond_samples(items, is_brief=config.getoption("--brief"))
    order = {ROOT / name: index for index, name in enumerate(_LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


_BRIEF = 2
"""Cases of a parametrized test with ``--brief``."""


def _mark_beyond_samples(items: list[pytest.Item], *, is_brief: bool) -> None:
    """Of the cases of a test with the marker ``sample(count)``, mark all but ``count`` as thorough.

    Those that stay are spread evenly over the list of cases. With ``is_brief``, every parametrized
    test is a sample.
    """
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if is_brief or item.get_closest_marker("sample"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for family in cases.values():
        marker = family[0].get_closest_marker("sample")
        count = marker.args[0] if marker is not None else _BRIEF
        count = min(count, _BRIEF) if is_brief else count
        kept = {index * len(family) // count for index in range(count)}
        for index, item in enumerate(family):
            if index not in kept:
                item.add_marker(pytest.mark.thorough)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the collector need not walk through it again."""
    gc.collect()
    gc.freeze()
