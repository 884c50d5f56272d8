"""Which function of which file scores a config's rollouts.

A package offers a reward by name, as ``reward.custom_reward_function.path=plugin://NAME``:

    [project.entry-points."grubrics.rewards"]
    sums = "my_package.rewards:SUMS"

A task brings its own: ``task://questions``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.base.plugins import load
from engine.tasks.registry import tasks

KEY = "reward.custom_reward_function"
PACKAGE = "pkg://"
FILE = "file://"
PLUGIN = "plugin://"
TASK = "task://"
TASK_LABEL = "task "
GROUP = "grubrics.rewards"


@dataclass(frozen=True, kw_only=True)
class Reward:
    """A reward function that a package offers. No field has a default, so none can be forgotten."""

    name: str
    summary: str
    module: str
    """Dotted name of the module that is imported by the function's own process."""
    function: str


@dataclass(frozen=True)
class RewardFunction:
    """``reward.custom_reward_function``: ``path`` is a file, ``file://FILE`` or ``pkg://MODULE``.

    ``kwargs`` are passed to every call and win over verl's own arguments of the same name.
    """

    path: str
    name: str = "compute_score"
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    task: str | None = None
    """The task whose scorer it is."""

    @classmethod
    def of_section(cls, section: Mapping[str, Any]) -> RewardFunction | None:
        """The function of a ``custom_reward_function`` section; None where it names no file.

        ``plugin://NAME`` becomes the module and function that the installed package declares, and
        ``task://NAME`` those of the task's scorer.
        """
        if not section.get("path"):
            return None
        path, name = str(section["path"]), str(section.get("name") or cls.name)
        reward = find_reward(path)
        task = None
        if reward is not None:
            task = reward.name if path.startswith(TASK) else None
            path = f"{PACKAGE}{reward.module}"
            name = reward.function if name == cls.name else name
        return cls(path, name, dict(section.get("reward_kwargs") or {}), task)

    @property
    def module(self) -> str | None:
        """The dotted name behind ``pkg://``."""
        if not self.path.startswith(PACKAGE):
            return None
        return self.path.removeprefix(PACKAGE).replace("/", ".")

    @property
    def label(self) -> str:
        """``gsm8k.py:compute_score``, or ``task questions``."""
        if self.task is not None:
            return f"{TASK_LABEL}{self.task}"
        return f"{self.module or Path(self.path).name}:{self.name}"

    def find_file(self) -> Path | None:
        """The source file, relative as the config has it. Nothing is imported."""
        if self.module is not None:
            return _module_file(self.module)
        path = Path(self.path.removeprefix(FILE))
        return path if path.is_file() else None

    def former_file(self) -> Path | None:
        """Where the source file was, once it is gone: a module's in the folder of its package,
        which may be gone too."""
        if self.module is None:
            return Path(self.path.removeprefix(FILE))
        *packages, last = self.module.split(".")
        search = [str(Path.cwd()), *sys.path]
        for depth, part in enumerate(packages):
            spec = PathFinder.find_spec(".".join(packages[: depth + 1]), search)
            locations = spec.submodule_search_locations if spec else None
            search = list(locations or [str(Path(search[0], part))])
        return Path(search[0], f"{last}.py")


def find_reward(path: str) -> Reward | None:
    """The installed reward that ``plugin://NAME`` means, or the scorer that ``task://NAME`` does;
    None for other paths and names."""
    if path.startswith(TASK):
        task = tasks().get(path.removeprefix(TASK))
        if task is None:
            return None
        return Reward(
            name=task.name, summary=task.summary, module=task.module, function=task.function
        )
    if not path.startswith(PLUGIN):
        return None
    name = path.removeprefix(PLUGIN)
    return next((reward for reward in load(GROUP, Reward).objects if reward.name == name), None)


def is_by_name(path: str) -> bool:
    """Whether a path names a reward or task instead of a file or module."""
    return path.startswith((PLUGIN, TASK))


def missing_reward(path: str) -> str:
    """Why ``plugin://NAME`` or ``task://NAME`` means nothing: the names that there are, the plugins
    skipped."""
    if path.startswith(TASK):
        return f"is no task (tasks: {', '.join(f'{TASK}{name}' for name in tasks())})"
    plugins = load(GROUP, Reward)
    names = ", ".join(f"{PLUGIN}{reward.name}" for reward in plugins.objects) or "none"
    return "; ".join((f"is not installed (installed rewards: {names})", *plugins.problems))


def _module_file(module: str) -> Path | None:
    search: list[str] | None = [str(Path.cwd()), *sys.path]
    name = file = None
    for part in module.split("."):
        name = part if name is None else f"{name}.{part}"
        spec = PathFinder.find_spec(name, search)
        if spec is None and name == part:
            spec = find_spec(name)  # An editable install is on no path. Nothing is imported.
        if spec is None:
            return None
        file, search = spec.origin, spec.submodule_search_locations
    return None if file is None or not Path(file).is_file() else Path(file)
