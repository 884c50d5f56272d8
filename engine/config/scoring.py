"""What scores a config's rollouts: a judge with rubrics, or the config's own reward function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.errors import UsageError
from engine.config.compose import ROLLOUT
from engine.config.load import Config
from engine.reward.own.files import code_files
from engine.reward.own.function import KEY, TASK, RewardFunction

if TYPE_CHECKING:
    from engine.reward.scorer import Scorer


def reward_function(config: Config) -> RewardFunction | None:
    """The function of ``reward.custom_reward_function``; None where the config names none."""
    section: dict[str, Any] = config.tree.get("reward", {}).get(KEY.rpartition(".")[2]) or {}
    return RewardFunction.of_section(section) if config.kind.has_rollouts else None


def scorer(config: Config) -> str:
    """What gives the rewards, in words."""
    function = reward_function(config)
    if function is not None:
        return f"rewards come from {function.label}"
    if asks_judge(config):
        return "rewards come from a judge that grades with rubrics"
    return "rewards come from a reward model"


def asks_judge(config: Config) -> bool:
    """Whether rewards come from a judge: not in SFT, nor with a function or model for them."""
    if not config.kind.has_rollouts or reward_function(config) is not None:
        return False
    return not config.get("reward.reward_model.enable", False)


def make_scorer(config: Config, env: Mapping[str, str]) -> Scorer:
    """What gives rollouts of this config their rewards, outside of the trainer.

    ``env`` holds the judge's credentials; what a reward function prints is dropped. UsageError
    without credentials, for a function that cannot be loaded, and where a reward model scores.
    """
    from engine.reward.scorer import BlockingScorer, Blocklist

    scorer = _make_scorer(config, env)
    blocklist = Blocklist.of_section(config.section("grubrics"))
    return scorer if blocklist is None else BlockingScorer(scorer, blocklist)


def _make_scorer(config: Config, env: Mapping[str, str]) -> Scorer:
    # Commands that only ask what scores need neither a judge nor processes.
    from engine.reward.formula import RewardSettings
    from engine.reward.judge.settings import JudgeSettings, make_judge
    from engine.reward.own.processes import RewardProcesses, source_of
    from engine.reward.scorer import FunctionScorer, RubricScorer

    function = reward_function(config)
    if function is not None:
        limit_s = float(config.get("grubrics.reward_timeout_s"))
        processes = RewardProcesses(source_of(function), limit_s, quiet=True)
        return FunctionScorer(processes.score, processes.end)
    if not asks_judge(config):
        raise UsageError(f"{config.path}: {scorer(config)}, which only the trainer can use")
    judge = make_judge(JudgeSettings(**config.section("judge")), None, env)
    return RubricScorer(judge, RewardSettings(**config.section("reward_config")))


AGENT_LOOP = f"{ROLLOUT}.agent.default_agent_loop"
MULTI_TURN = f"{ROLLOUT}.multi_turn"
TOOL_AGENT = "tool_agent"


def calls_tools(config: Config) -> bool:
    """Whether the agent loop may call tools."""
    return bool(config.get(AGENT_LOOP) == TOOL_AGENT)


def tools_files(config: Config) -> list[Path]:
    """The files that declare the tools."""
    keys = (f"{MULTI_TURN}.function_tool_path", f"{MULTI_TURN}.tool_config_path")
    return [Path(value) for key in keys if (value := config.get(key))]


def tools_code(config: Config) -> list[Path]:
    """The files of the tools that a run can call, with what they import from their folders."""
    files = tools_files(config) if calls_tools(config) else []
    found: dict[Path, None] = {}
    for path in files:
        imported = code_files(RewardFunction(str(path))) if path.suffix == ".py" else []
        found |= dict.fromkeys([path, *imported])
    return [path for path in found if path.is_file()]


def scores_all_turns(path: str | None) -> bool:
    """Whether a reward function gets the whole response, as from verl: one of the user does. Tasks
    and judges score the model's last turn. ``path`` is that of the function, None for a judge."""
    return path is not None and not path.startswith(TASK)
