"""Can the judge keep up, and what will it cost?"""

from __future__ import annotations

from engine.base.times import seconds
from engine.estimate.concurrency import SLOW_S
from engine.estimate.experience import judge_times
from engine.estimate.judge import JudgeUse, judge_use
from engine.preflight.check import Check, Subject, ok, skip, warn
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge, scorer
from engine.recipe.steps import count_of, step_plan

ID = "judge"


def spared(recipe: Recipe) -> str | None:
    """Why the recipe asks no judge; None where it asks one."""
    if not recipe.kind.has_rollouts:
        return f"{recipe.kind.title} does not use a judge"
    return None if asks_judge(recipe) else f"none is asked: {scorer(recipe)}"


def check(subject: Subject) -> Check:
    """Calls of a step x latency / calls in flight: the least time that a step can take."""
    recipe = subject.recipe
    plan = step_plan(recipe)
    if plan is None or plan.rows < plan.batch:
        return skip(ID, "the training file cannot be read, or fills no batch")
    use = judge_use(recipe, plan, judge_times(recipe, subject.runs))
    workers = int(recipe.get("reward.num_workers"))
    message = f"{pace(use, workers)}; {price(use)}"
    enough = use.concurrency_for(SLOW_S)
    if use.least_step is None or use.least_step <= SLOW_S or enough is None:
        return ok(ID, message)
    advice = f"a step within {SLOW_S:.0f} s needs {enough} calls in flight, if the judge allows it"
    return warn(ID, f"{message}; {advice}", f"judge.max_concurrent={enough}")


def pace(use: JudgeUse, workers: int) -> str:
    """The arithmetic of a step's calls."""
    asking = "one reward worker" if workers == 1 else f"all {workers} reward workers together"
    rounds = count_of(use.rounds, "round")
    text = f"{use.calls.step} calls a step, {use.limit} in flight for {asking} = {rounds}"
    if use.latency is None or use.least_step is None:
        return f"{text}; latency unknown before a run has asked this judge"
    each, least = seconds(use.latency), seconds(use.least_step)
    return f"{text} x {each} = {least} at least (run '{use.basis}')"


def price(use: JudgeUse) -> str:
    """How many calls the run makes in all, and what they cost or what is missing to say so."""
    calls = f"{use.calls.total:,} calls in all"
    if use.calls.validation:
        times = count_of(use.calls.validations, "validation")
        calls += f", {use.calls.validation:,} of them in {times},"
    if use.cost is not None:
        return f"{calls} cost ${use.cost:,.2f}"
    missing = [text for text in use.unknown if text != "no earlier run asked this judge"]
    return f"{calls.removesuffix(',')}, cost unknown ({'; '.join(missing)})"
