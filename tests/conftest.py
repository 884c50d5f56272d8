"""Tests that pass or fail for everybody alike: the same examples in every run, and nothing of the
user's shell or home: no runs folder, key, token, cache or settings. No hub is asked for a model."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from engine.preflight.testsuite import environment_of_tests

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

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


@pytest.fixture(scope="session", autouse=True)
def _state_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The key that vouches for the runs of the tests is not the one of who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
