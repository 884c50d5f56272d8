"""The result of a preflight check: ok, warn, fail or skip, with a message and a fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from engine.base.errors import UsageError
from engine.base.yaml_files import read_table
from engine.checks.token_view import TokenView, read_token_view
from engine.config.executed import code_objection
from engine.config.load import Config
from engine.config.scoring import calls_tools, tools_files
from engine.config.steps import StepPlan, step_plan
from engine.run.trust import Case

_TABLES = Path(__file__).with_name("tables.yaml")
Status = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True)
class Check:
    """The result of one check of a launch. ``fix`` is a command or an edit."""

    id: str
    status: Status
    message: str
    fix: str | None = None


@dataclass
class PromptLengths:
    """What the check ``prompt`` tells later ones: the tokens of the longest prompt within the limit
    (0: not known), and the training rows that are too long and dropped."""

    longest: int = 0
    dropped: int = 0


@dataclass(frozen=True)
class Subject:
    """What is checked: a config, and the environment and runs directory of its run."""

    config: Config
    env: Mapping[str, str]
    runs: Path
    ahead: frozenset[str] = frozenset()
    """Runs that will have ended when this one starts."""
    waits: bool = False
    """Whether the run waits in the queue until no other run is in its way; one that only waits for
    another run may meet others."""

    prompts: PromptLengths = field(default_factory=PromptLengths)

    @cached_property
    def steps(self) -> StepPlan | None:
        """The optimizer steps of the run; None while the training file cannot be read."""
        return step_plan(self.config)

    @cached_property
    def objection(self) -> Case | None:
        """What a person must agree to before code of the config is loaded; None for nothing."""
        return code_objection(self.config)

    @cached_property
    def tool_view(self) -> TokenView | UsageError | None:
        """A row with a tool call as the trainer renders it, or why it cannot be rendered.

        None for a config without tools, and where somebody else could have written them: rendering
        loads their code.
        """
        has_tools = calls_tools(self.config) and tools_files(self.config)
        if not has_tools or self.objection is not None:
            return None
        try:
            return read_token_view(self.config)
        except UsageError as error:
            return error

    @property
    def uses_cluster(self) -> bool:
        """Whether RAY_ADDRESS names a cluster: then the training does not run on this host."""
        return self.env.get("RAY_ADDRESS", "local") not in ("", "local")


def ok(id: str, message: str) -> Check:
    return Check(id, "ok", message)


def warn(id: str, message: str, fix: str | None = None) -> Check:
    return Check(id, "warn", message, fix)


def fail(id: str, message: str, fix: str | None = None) -> Check:
    return Check(id, "fail", message, fix)


def skip(id: str, message: str) -> Check:
    return Check(id, "skip", message)


def summary(id: str, checks: Iterable[Check], ok_message: str) -> Check:
    """Join all failures into one check, else all warnings, else return ``ok_message``."""
    checks = list(checks)
    for status in ("fail", "warn"):
        chosen = [check for check in checks if check.status == status]
        if chosen:
            fixes = dict.fromkeys(check.fix for check in chosen if check.fix)
            message = "; ".join(check.message for check in chosen)
            return Check(id, chosen[0].status, message, "; ".join(fixes) or None)
    return ok(id, ok_message)


@cache
def tables() -> Mapping[str, Any]:
    """The sections of ``tables.yaml``, which explains them."""
    sections: dict[str, Any] = read_table(_TABLES)
    return sections
