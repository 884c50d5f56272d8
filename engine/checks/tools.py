"""Check that the model sees the tools, that its calls are read, and that it sees the replies."""

from __future__ import annotations

from collections.abc import Iterator

from engine.base.errors import UsageError
from engine.base.quantities import format_count
from engine.checks.check import Check, Subject, fail, skip, summary, warn
from engine.checks.token_view import NoModelError, ToolUse
from engine.config.load import Config
from engine.config.places import model_name
from engine.config.scoring import AGENT_LOOP, MULTI_TURN, calls_tools, tools_files

ID = "tools"


def skip_reason(config: Config) -> str | None:
    """Why there are no tools to check; None if there are."""
    if calls_tools(config):
        return None
    return f"{AGENT_LOOP}={config.get(AGENT_LOOP)} calls no tools"


def check(subject: Subject) -> Check:
    """Let verl render a row in which the first tool is called and replies."""
    config = subject.config
    if not (files := tools_files(config)):
        fix = f"{MULTI_TURN}.function_tool_path=tools.py"
        return fail(ID, f"{AGENT_LOOP}=tool_agent, but the config declares no tools", fix)
    names = ", ".join(map(str, files))
    view = subject.tool_view
    if view is None:
        return skip(ID, f"{names} was not loaded: another user could have written it")
    if isinstance(view, NoModelError):
        return skip(ID, f"{model_name(config)} is not on this disk; no call was rendered")
    if isinstance(view, UsageError):
        return fail(ID, f"{names}: {view}")
    use = view.tools
    if use is None or not use.names:
        return fail(ID, f"{names}: declares no tools", "mark functions with @function_tool")
    problems = list(_problems(config, use))
    trained, total = view.count(trained=True), sum(len(part.tokens) for part in view.parts)
    tools = f"{format_count(len(use.names), 'tool')} ({', '.join(use.names)})"
    return summary(
        ID, problems, f"{tools}; of row 0 with a call, {trained} of {total} tokens train"
    )


def _problems(config: Config, use: ToolUse) -> Iterator[Check]:
    turns = f"{MULTI_TURN}.max_assistant_turns"
    if config.get(turns) == 1:
        yield fail(ID, f"{turns}=1: a call in the last turn is not executed", f"{turns}=2")
    if not use.listed:
        message = "the chat template does not write the tools into the prompt"
        yield warn(ID, f"{message}: the model does not know them", "describe them in the prompts")
    form = config.get(f"{MULTI_TURN}.format")
    if use.outcome in (None, "malformed"):
        if not use.written:
            yield warn(
                ID, f"the chat template writes no calls: {MULTI_TURN}.format={form} is untested"
            )
            return
        message = (
            f"{MULTI_TURN}.format={form} does not read the calls that the chat template writes"
        )
        yield fail(ID, message, f"set {MULTI_TURN}.format to the model's form")
    elif use.outcome == "not_run":
        message = "a call and its reply do not fit in data.max_response_length"
        yield warn(ID, f"{message}={config.get('data.max_response_length')}")
    elif not use.answered:
        yield fail(ID, "the chat template leaves out messages with the role tool")
