"""How far can the run get, and what will it ask of the judge?"""

from __future__ import annotations

import math

from engine.estimate.judge import calls_of
from engine.preflight.check import Check, Subject, fail, ok, skip
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge
from engine.recipe.steps import StepPlan, count_of, step_plan
from engine.runs.kinds import GRPO, SFT

ID = "steps"


def check(subject: Subject) -> Check:
    """Steps asked for against steps the data can give, with the arithmetic."""
    recipe = subject.recipe
    plan = step_plan(recipe)
    if plan is None:
        return skip(ID, "the training file cannot be read")
    if not plan.trains:
        return ok(ID, "trainer.val_only=true: one validation, no training step")
    if plan.rows < plan.batch:
        return _no_batch(recipe, plan)
    if recipe.kind == SFT:
        return ok(ID, _supervised(plan))
    if plan.asked is not None and plan.asked > plan.reachable:
        return _out_of_reach(plan)
    return ok(ID, f"{plan.total} steps of {plan.arithmetic()}; {_scores(recipe, plan)}")


def _supervised(plan: StepPlan) -> str:
    """``training.max_steps`` replaces the epochs, as in the HF Trainer, so it is never too many."""
    if plan.asked is None:
        return f"{plan.total} steps: {plan.arithmetic()}"
    per_epoch = plan.rows // plan.batch
    return (
        f"{plan.total} steps, as training.max_steps says: {plan.total / per_epoch:.3g} epochs of "
        f"{plan.rows} rows // batch {plan.batch} = {count_of(per_epoch, 'step')}"
    )


def _no_batch(recipe: Recipe, plan: StepPlan) -> Check:
    key = recipe.kind.batch_key
    size = max(1, plan.rows * recipe.get(key) // plan.batch)
    changes = [f"{key}={size}"]
    mini_key = "actor_rollout_ref.actor.ppo_mini_batch_size"
    if recipe.get(mini_key, 0) > size:
        changes.append(f"{mini_key}={size}")
    if recipe.kind == GRPO and plan.asked is not None and plan.asked > plan.epochs:
        changes.append(f"trainer.total_epochs={plan.asked}")
    message = f"{plan.rows} training rows do not fill one batch of {plan.batch}"
    return fail(ID, f"{message}, and verl drops what is left over", " ".join(changes))


def _out_of_reach(plan: StepPlan) -> Check:
    epochs = math.ceil((plan.asked or 0) / (plan.rows // plan.batch))
    return fail(
        ID,
        f"trainer.total_training_steps={plan.asked} cannot be reached: {plan.arithmetic()}; "
        "the run would end there without its last checkpoint",
        f"trainer.total_epochs={epochs}",
    )


def _scores(recipe: Recipe, plan: StepPlan) -> str:
    calls = calls_of(recipe, plan)
    what = "judge calls" if asks_judge(recipe) else "rewards"
    return (
        f"{calls.step} {what} a step, {calls.step * calls.steps} in all, and "
        f"{calls.validation} in {count_of(calls.validations, 'validation')}"
    )
