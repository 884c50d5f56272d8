"""Fixes that several rules offer: a changed config value, or advice if the config is unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.findings.finding import Change, Remedy
from engine.findings.run_context import MetricContext
from engine.findings.symptom import Case
from engine.judge.providers import OFFLINE, asks_server

ACTOR = "actor_rollout_ref.actor"
RESPONSE = "data.max_response_length"
ROLLOUTS = "actor_rollout_ref.rollout.n"
TEMPERATURE = "actor_rollout_ref.rollout.temperature"
TEMPERATURE_SCHEDULE_STEPS = "grubrics.temperature_schedule.steps"
CLIPPING = "Clip gradients at norm 1"
"""What the trainers of transformers, TRL and verl do by default."""
LENGTH_SCHEDULE_STEPS = "grubrics.response_length_schedule.steps"


def setting(
    context: MetricContext, key: str | None, after: object, title: str, effect: str
) -> Remedy:
    """Set ``key``; only advice if the run's config is unknown."""
    if key is None or key not in context.recipe:
        return Remedy(title, (), effect)
    before = context.get(key)
    changes = () if before == after else (Change("config", key, after, before),)
    return Remedy(title, changes, effect)


def scaled(
    context: MetricContext, key: str | None, factor: float, title: str, effect: str
) -> Remedy:
    """Multiply ``key``; an integer stays an integer, other numbers get three significant digits."""
    before = context.get(key)
    if not isinstance(before, int | float) or isinstance(before, bool) or before <= 0:
        return Remedy(title, (), effect)
    is_integer = isinstance(before, int)
    after = max(1, round(before * factor)) if is_integer else float(f"{before * factor:.3g}")
    return setting(context, key, after, title, effect)


def usual_value(
    context: MetricContext,
    key: str | None,
    usual: float,
    is_sound: Callable[[float], bool],
    title: str,
) -> Remedy:
    """Set the config file's value if an override made it unusable, else the usual one.

    ``{}`` in the title is replaced by the value.
    """
    written = context.in_file.get(key or "")
    effect = "a typical value"
    if isinstance(written, int | float) and not isinstance(written, bool) and is_sound(written):
        usual, effect = written, "the value in the config file (drops the override)"
    return setting(context, key, usual, title.format(usual), effect)


def sample_at_1(context: MetricContext, effect: str) -> Remedy:
    """Sample at temperature 1 in every step, also where a schedule sets the temperature."""
    fix = setting(context, TEMPERATURE, 1.0, "Sample at temperature 1.0", effect)
    return _without_schedule(context, fix, TEMPERATURE_SCHEDULE_STEPS)


def _without_schedule(context: MetricContext, fix: Remedy, key: str) -> Remedy:
    """The fix of a value that a schedule sets in its place, if ``key`` of the schedule is set."""
    if (steps := context.get(key)) is None:
        return fix
    return replace(fix, changes=(*fix.changes, Change("config", key, None, steps)))


def lower_rate(context: MetricContext, factor: float = 0.1) -> Remedy:
    """Lower the learning rate, the first fix if updates are too large."""
    key = context.kind.learning_rate_key if context.kind else None
    now, written = context.get(key), context.in_file.get(key or "")
    if isinstance(now, int | float) and isinstance(written, int | float) and 0 < written < now:
        effect = "the value in the config file (drops the override)"
        return setting(context, key, written, f"Lower the learning rate to {written:g}", effect)
    title = f"Multiply the learning rate by {factor:g}"
    return scaled(context, key, factor, title, "smaller updates")


def clip_gradients(context: MetricContext) -> Remedy:
    """Clip gradients at the usual norm."""
    key = context.kind.gradient_clip_key if context.kind else None
    return setting(context, key, 1.0, CLIPPING, "limits the effect of a single bad batch")


def add_kl_loss(context: MetricContext) -> Remedy:
    """Add a KL loss to the starting model, or raise its weight."""
    title = "Add a KL loss to the starting model"
    effect = "keeps the policy near its starting model; costs a reference pass"
    use, weight = f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_coef"
    if use not in context.recipe and context.logs_kl:
        return Remedy("Raise the weight of the KL loss", (), "keeps the policy nearer")
    if use not in context.recipe:
        return Remedy(f"{title}, or raise its weight", (), effect)
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


def longer_responses(context: MetricContext) -> Remedy:
    """Double the length limit of responses."""
    title = "Allow longer responses"
    fix = scaled(context, RESPONSE, 2, title, "responses can end; generation takes longer")
    return _without_schedule(context, fix, LENGTH_SCHEDULE_STEPS)


def no_thinking(context: MetricContext) -> tuple[Remedy, ...]:
    """Turn thinking off, unless the config does."""
    if context.get("data.apply_chat_template_kwargs.enable_thinking") is False:
        return ()
    return (Remedy("Turn thinking off in the chat template"),)


def earlier_checkpoint(case: Case) -> tuple[Remedy, ...]:
    """Rerun from before the problem began; from a checkpoint only if one that old was saved."""
    onset, saved = case.onset, case.context.checkpoints
    if onset is not None and onset <= 1:
        effect = "no checkpoint is older than the problem"
        return (Remedy("Restart from the initial model", (), effect),)
    if saved is not None and not any(onset is None or step < onset for step in saved):
        return ()
    if onset is None:
        return (Remedy("Resume from the last checkpoint before it began"),)
    title = f"Resume from the last checkpoint before step {onset}"
    return (Remedy(title, (), "keeps what was learned before that step"),)


def judge_test(context: MetricContext) -> tuple[Remedy, ...]:
    """Test the judge alone, unless the config is known to score without one."""
    if context.get("reward.custom_reward_function.path") or (
        context.kind is not None and not context.kind.has_rollouts
    ):
        return ()
    effect = "a judge that fails, or that scores everything 0, looks the same"
    if not context.recipe:
        title = "Test the judge (if one scores responses) with one call by hand"
        return (Remedy(title, (), effect),)
    return (Remedy("Test the judge: grubrics-tui judge-test RUN", (), effect),)


def without_judge(context: MetricContext) -> tuple[Remedy, ...]:
    """Use the offline judge, which shows whether only the judge fails."""
    if not asks_server(context.get("judge.provider") or OFFLINE.name):
        return ()
    title = "Test the loop with the offline judge"
    effect = "shows whether the rest works; its scores say nothing about quality"
    return (setting(context, "judge.provider", "offline", title, effect),)


def rubric_reward(context: MetricContext) -> tuple[Remedy, ...]:
    """Use the rubric reward instead of the config's own function, which fails."""
    key = "reward.custom_reward_function.path"
    if not context.get(key):
        return ()
    title = "Score with the rubric reward instead of the custom function"
    return (setting(context, key, None, title, "shows whether the custom function is at fault"),)
