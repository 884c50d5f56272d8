"""Remedies that several rules offer: the wanted change of one recipe value, or the advice."""

from __future__ import annotations

from collections.abc import Callable

from engine.findings.finding import Change, Remedy
from engine.findings.run_context import MetricContext
from engine.judge.providers import OFFLINE, asks_server

ACTOR = "actor_rollout_ref.actor"
RESPONSE = "data.max_response_length"
ROLLOUTS = "actor_rollout_ref.rollout.n"


def setting(
    context: MetricContext, key: str | None, after: object, title: str, effect: str
) -> Remedy:
    """Set ``key``; of a run whose recipe is unknown only the advice is left."""
    if key is None or key not in context.recipe:
        return Remedy(title, (), effect)
    before = context.get(key)
    changes = () if before == after else (Change("config", key, after, before),)
    return Remedy(title, changes, effect)


def scaled(
    context: MetricContext, key: str | None, factor: float, title: str, effect: str
) -> Remedy:
    """Multiply ``key``; a whole number stays whole, others have three figures."""
    before = context.get(key)
    if not isinstance(before, int | float) or isinstance(before, bool) or before <= 0:
        return Remedy(title, (), effect)
    whole = isinstance(before, int)
    after = max(1, round(before * factor)) if whole else float(f"{before * factor:.3g}")
    return setting(context, key, after, title, effect)


def sounder(
    context: MetricContext, key: str, usual: float, is_sound: Callable[[float], bool], title: str
) -> Remedy:
    """What the recipe's file has, where an override made it unsound; else what is usual.

    ``title`` names the value with ``{}``.
    """
    written = context.in_file.get(key)
    effect = "as others train"
    if isinstance(written, int | float) and not isinstance(written, bool) and is_sound(written):
        usual, effect = written, "as the recipe's file has it, without the override"
    return setting(context, key, usual, title.format(usual), effect)


def gentler(context: MetricContext, factor: float = 0.1) -> Remedy:
    """A lower learning rate: the first thing to try when updates are too large."""
    key = context.kind.learning_rate_key if context.kind else None
    now, written = context.get(key), context.in_file.get(key or "")
    if isinstance(now, int | float) and isinstance(written, int | float) and 0 < written < now:
        effect = "as the recipe's file has it, without the override"
        return setting(context, key, written, f"Lower the learning rate to {written:g}", effect)
    title = f"Lower the learning rate to {factor:g} of it"
    return scaled(context, key, factor, title, "smaller updates")


def clipped(context: MetricContext) -> Remedy:
    key = context.kind.gradient_clip_key if context.kind else None
    title = "Clip gradients at norm 1"
    return setting(context, key, 1.0, title, "one bad batch cannot move the weights far")


def held_near_reference(context: MetricContext) -> Remedy:
    """KL towards the starting model; both switches of the recipe are off without it."""
    title = "Add a KL loss towards the starting model"
    effect = "the policy stays near the model it started from, at the price of a reference pass"
    use, weight = f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_coef"
    if use not in context.recipe:
        return Remedy(title, (), effect)
    before = context.get(weight)
    stronger = 0.01 if not isinstance(before, int | float) else max(0.01, 10 * before)
    if not context.get(use):
        changes = (Change("config", use, True, False), Change("config", weight, 0.01, before))
        return Remedy(title, changes, effect)
    return Remedy(
        f"Raise the KL weight to {stronger:g}",
        (Change("config", weight, stronger, before),),
        effect,
    )


def longer(context: MetricContext) -> Remedy:
    title = "Allow longer responses"
    return scaled(context, RESPONSE, 2, title, "responses can end; generation takes more time")


def earlier_checkpoint(step: int) -> Remedy:
    if step <= 1:
        return Remedy(
            "Begin again from the starting model", (), "there is no checkpoint from before it"
        )
    return Remedy(
        f"Go on from the last checkpoint before step {step}",
        (),
        "what was learned until then is kept",
    )


def judge_test(context: MetricContext) -> tuple[Remedy, ...]:
    """Ask the judge alone, unless the recipe is known to score without one."""
    if context.get("reward.custom_reward_function.path") or (
        context.kind is not None and not context.kind.has_rollouts
    ):
        return ()
    effect = "a judge that fails, or scores only 0, looks like this"
    if not context.recipe:
        return (Remedy("Test the judge alone, where one scores: one call, by hand", (), effect),)
    return (Remedy("Test the judge alone: grubrics-tui judge-test RUN", (), effect),)


def without_judge(context: MetricContext) -> tuple[Remedy, ...]:
    """The loop with the offline stand-in: whether anything but the judge is at fault."""
    if not asks_server(context.get("judge.provider") or OFFLINE.name):
        return ()
    title = "Try the loop with the offline stand-in for the judge"
    effect = "shows whether the rest is sound; its scores say nothing of quality"
    return (setting(context, "judge.provider", "offline", title, effect),)


def own_reward(context: MetricContext) -> tuple[Remedy, ...]:
    """The rubric reward in place of a function of the recipe's own that is broken."""
    key = "reward.custom_reward_function.path"
    if not context.get(key):
        return ()
    title = "Score with the rubric reward in place of that function"
    return (setting(context, key, None, title, "shows whether the function is at fault"),)
