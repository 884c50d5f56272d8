"""The tools of a recipe, which its agent loop calls in several turns."""

from __future__ import annotations

from pathlib import Path

from engine.own_reward.files import code_files
from engine.own_reward.function import TASK, RewardFunction
from engine.recipe.compose import ROLLOUT
from engine.recipe.recipe import Recipe

AGENT_LOOP = f"{ROLLOUT}.agent.default_agent_loop"
MULTI_TURN = f"{ROLLOUT}.multi_turn"
TOOL_AGENT = "tool_agent"


def calls_tools(recipe: Recipe) -> bool:
    """Whether the agent loop may call tools."""
    return bool(recipe.get(AGENT_LOOP) == TOOL_AGENT)


def tools_files(recipe: Recipe) -> list[Path]:
    """The files that declare the tools."""
    keys = (f"{MULTI_TURN}.function_tool_path", f"{MULTI_TURN}.tool_config_path")
    return [Path(value) for key in keys if (value := recipe.get(key))]


def tools_code(recipe: Recipe) -> list[Path]:
    """The files of the tools that a run can call, with what they import from their folders."""
    files = tools_files(recipe) if calls_tools(recipe) else []
    found: dict[Path, None] = {}
    for path in files:
        imported = code_files(RewardFunction(str(path))) if path.suffix == ".py" else []
        found |= dict.fromkeys([path, *imported])
    return [path for path in found if path.is_file()]


def scores_all_turns(path: str | None) -> bool:
    """Whether a reward function gets the whole response, as from verl: one of the user does. Tasks
    and judges score the model's last turn. ``path`` is that of the function, None for a judge."""
    return path is not None and not path.startswith(TASK)
