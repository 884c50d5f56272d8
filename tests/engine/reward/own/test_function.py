"""Rewards that installed packages offer by name."""

from __future__ import annotations

import asyncio
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.reward.own.function import RewardFunction
from engine.reward.own.processes import RewardProcesses, source_of
from tests.engine.checks.project import Project
from tests.plugins import InstallPlugin
from tests.reward_arguments import as_arguments

pytestmark = pytest.mark.long

CODE = """
from engine.reward.own.function import Reward

SUMS = Reward(name="sums", summary="a sum", module="sums_reward", function="score_sum")

def score_sum(solution_str, bonus=0.0, **_):
    return len(solution_str) + bonus
"""
ENTRY = "[grubrics.rewards]\nours = sums_reward:SUMS\n"


def function_of(**section: Any) -> RewardFunction:
    function = RewardFunction.of_section(section)
    assert function is not None
    return function


def test_a_reward_of_a_package_is_called_by_its_name(install_plugin: InstallPlugin) -> None:
    install_plugin("sums_reward", CODE, ENTRY)
    function = function_of(path="plugin://sums", name="compute_score", reward_kwargs={"bonus": 1})
    assert (function.path, function.label) == ("pkg://sums_reward", "sums_reward:score_sum")

    async def score() -> Any:
        processes = RewardProcesses(source_of(function), 20.0, quiet=True)
        try:
            return await processes.score(**as_arguments("four", "x", "", {}))
        finally:
            processes.end()

    assert asyncio.run(score()) == 5.0


def test_the_checks_try_a_reward_of_a_package(
    install_plugin: InstallPlugin, project: Project
) -> None:
    install_plugin("sums_reward", CODE, ENTRY)
    check = project.checks("grpo", "reward.custom_reward_function.path=plugin://sums")["reward"]
    assert check.status == "ok", check.message
    assert "sums_reward:score_sum" in check.message


@pytest.mark.parametrize("name", ["plugin://sum", "plugin://sums"])
@pytest.mark.parametrize("code", [CODE.replace('summary="a sum", ', ""), "raise RuntimeError"])
def test_a_reward_that_is_not_installed_is_named_with_the_broken_plugins(
    install_plugin: InstallPlugin, project: Project, name: str, code: str
) -> None:
    install_plugin("sums_reward", code, ENTRY)
    with pytest.raises(UsageError, match=r"is not installed .* plugin ours of sums_reward 1\.2"):
        source_of(function_of(path=name))
    check = project.checks("grpo", f"reward.custom_reward_function.path={name}")["reward"]
    assert (check.status, "is not installed" in check.message) == ("fail", True)


class EditableFinder:
    """Finds a package that is on no path, as the finder of an editable install does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(self._folder)]) if path is None else None


def test_the_file_of_an_editable_install_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code" / "editable").mkdir(parents=True)
    for name in ("__init__", "reward"):
        (tmp_path / "code" / "editable" / f"{name}.py").touch()
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, EditableFinder(tmp_path / "code")])
    file = function_of(path="pkg://editable.reward").find_file()
    assert file == tmp_path / "code" / "editable" / "reward.py"
