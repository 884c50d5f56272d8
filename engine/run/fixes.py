"""Fixes that several rules offer: a changed config value, or advice if the config is unknown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from engine.base.judge_providers import OFFLINE, asks_server
from engine.run.finding import Change, Fix
from engine.run.finding_kind import Case
from engine.run.kinds import GRPO
from engine.run.rule_context import RuleContext
from engine.run.trainer_settings import key_of

ACTOR = "actor_rollout_ref.actor"
RESPONSE, ROLLOUTS, TEMPERATURE = map(key_of, ("length", "rollouts", "temperature"))
TEMPERATURE_SCHEDULE_STEPS = "grubrics.temperature_schedule.steps"
LENGTH_SCHEDULE_STEPS = "grubrics.response_length_schedule.steps"


def key_in(case: Case, name: str) -> str:
    """The key of a setting in configs like the run's, of GRPO if it has none. A key is its own."""
    return key_of(name, (case.context.kind or GRPO).name)


def setting(context: RuleContext, key: str | None, after: object, title: str, effect: str) -> Fix:
    """Set ``key``; only advice if the run's config is unknown."""
    before = context.get(key)
    if key is None or key not in context.config or before == after:
        return Fix(title, (), effect, key or "")
    return Fix(title, (Change("config", key, after, before),), effect)


def scaled(context: RuleContext, key: str | None, factor: float, title: str, effect: str) -> Fix:
    """Multiply ``key``; an integer stays an integer, other numbers get three significant digits."""
    before = context.get(key)
    if not isinstance(before, int | float) or isinstance(before, bool) or before <= 0:
        return Fix(title, (), effect, key or "")
    is_integer = isinstance(before, int)
    after = max(1, round(before * factor)) if is_integer else float(f"{before * factor:.3g}")
    return setting(context, key, after, title, effect)


def usual_value(
    context: RuleContext,
    key: str | None,
    usual: float,
    is_sound: Callable[[float], bool],
    title: str,
) -> Fix:
    """Set the config file's value if an override made it unusable, else the usual one.

    ``{}`` in the title is replaced by the value.
    """
    written = context.in_file.get(key or "")
    effect = "a typical value"
    if isinstance(written, int | float) and not isinstance(written, bool) and is_sound(written):
        usual, effect = written, "the value in the config file (drops the override)"
    return setting(context, key, usual, title.format(usual), effect)


def sample_at_1(case: Case, effect: str) -> Fix:
    """Sample at temperature 1 in every step, also where a schedule sets the temperature."""
    fix = setting(case.context, TEMPERATURE, 1.0, "Sample at temperature 1.0", effect)
    return _without_schedule(case.context, fix, TEMPERATURE_SCHEDULE_STEPS)


def _without_schedule(context: RuleContext, fix: Fix, key: str) -> Fix:
    """The fix of a value that a schedule sets in its place, if ``key`` of the schedule is set."""
    if (steps := context.get(key)) is None:
        return fix
    return replace(fix, changes=(*fix.changes, Change("config", key, None, steps)))


def lower_rate(case: Case, factor: float = 0.1) -> Fix:
    """Lower the learning rate, the first fix if updates are too large."""
    key = (case.context.kind or GRPO).learning_rate_key
    now, written = case.context.get(key), case.context.in_file.get(key or "")
    if isinstance(now, int | float) and isinstance(written, int | float) and 0 < written < now:
        effect = "the value in the config file (drops the override)"
        return setting(
            case.context, key, written, f"Lower the learning rate to {written:g}", effect
        )
    title = f"Multiply the learning rate by {factor:g}"
    return scaled(case.context, key, factor, title, "smaller updates")


def usual_rate(case: Case) -> Fix:
    """Set the learning rate that is usual for the kind of run."""
    kind = case.context.kind or GRPO
    usual = kind.usual_learning_rate
    title = f"Set the learning rate, e.g. {usual:g}"
    return setting(case.context, kind.learning_rate_key, usual, title, "steps train")


def clip_gradients(case: Case) -> Fix:
    """Clip gradients at the usual norm."""
    key, title = (case.context.kind or GRPO).gradient_clip_key, "Clip gradients at norm 1"
    return setting(case.context, key, 1.0, title, "limits the effect of a single bad batch")


def add_kl_loss(case: Case) -> Fix:
    """Add a KL loss to the starting model, or raise its weight."""
    title = "Add a KL loss to the starting model"
    effect = "keeps the policy near its starting model; costs a reference pass"
    use, weight = key_of("use_kl"), key_of("kl_weight")
    if use not in case.context.config and case.context.logs_kl:
        return Fix("Raise the weight of the KL loss", (), "keeps the policy nearer", weight)
    if use not in case.context.config:
        return Fix(f"{title}, or raise its weight", (), effect, weight)
    before = case.context.get(weight)
    stronger = 0.01 if not isinstance(before, int | float) else max(0.01, 10 * before)
    if not case.context.get(use):
        changes = (Change("config", use, True, False), Change("config", weight, 0.01, before))
        return Fix(title, changes, effect)
    return Fix(
        f"Raise the KL weight to {stronger:g}",
        (Change("config", weight, stronger, before),),
        effect,
    )


def entropy_bonus(case: Case) -> Fix:
    """Set an entropy bonus, or triple it."""
    key, effect = key_of("entropy"), "keeps the policy from becoming certain"
    before = case.context.get(key)
    wanted = 3 * before if isinstance(before, float) and before > 0 else 0.003
    return setting(case.context, key, wanted, "Raise the entropy bonus", effect)


def no_entropy_bonus(case: Case) -> tuple[Fix, ...]:
    """Turn the entropy bonus off, unless the config does."""
    key, effect = key_of("entropy"), "only the reward drives the policy"
    if case.context.get(key) == 0:
        return ()
    return (setting(case.context, key, 0, "Turn the entropy bonus off", effect),)


def longer_responses(case: Case) -> Fix:
    """Double the length limit of responses."""
    title = "Allow longer responses"
    fix = scaled(case.context, RESPONSE, 2, title, "responses can end; generation takes longer")
    return _without_schedule(case.context, fix, LENGTH_SCHEDULE_STEPS)


_TUNED = re.compile(r"instruct|chat|sft|[-_]it\b|global_step_|checkpoint-", re.IGNORECASE)
"""Names of models that were fine-tuned already."""


def _is_tuned(context: RuleContext) -> bool:
    model = str(context.get(GRPO.model_key) or context.model)
    return _TUNED.search(model) is not None


def easier_prompts(case: Case) -> Fix:
    """Start with easier prompts, or from an SFT checkpoint, unless the model is one already."""
    instead = "" if _is_tuned(case.context) else ", or from an SFT checkpoint"
    return Fix(f"Start with easier prompts{instead}")


def format_first(case: Case) -> Fix:
    """Teach the format by SFT, unless the model had some, or by an example."""
    if _is_tuned(case.context):
        return Fix("Put an example into the prompt, or train the format by more SFT")
    return Fix("Start from an SFT checkpoint, or put an example into the prompt")


def no_thinking(case: Case) -> tuple[Fix, ...]:
    """Turn thinking off, unless the config does."""
    if case.context.get("data.apply_chat_template_kwargs.enable_thinking") is False:
        return ()
    return (Fix("Turn thinking off in the chat template"),)


def earlier_checkpoint(case: Case) -> tuple[Fix, ...]:
    """Rerun from before the problem began; from a checkpoint only if one that old was saved."""
    onset, saved = case.onset, case.context.checkpoints
    if onset is not None and onset <= 1:
        effect = "no checkpoint is older than the problem"
        return (Fix("Restart from the initial model", (), effect),)
    if saved is not None and not any(onset is None or step < onset for step in saved):
        return ()
    if onset is None:
        return (Fix("Resume from the last checkpoint before it began"),)
    title = f"Resume from the last checkpoint before step {onset}"
    if saved is not None:
        title += f", that of step {max(step for step in saved if step < onset)}"
    return (Fix(title, (), "keeps what was learned before that step"),)


def judge_test(case: Case) -> tuple[Fix, ...]:
    """Test what scores alone, the judge of a config that has one."""
    if case.context.get(key_of("reward_function")) or (
        case.context.kind is not None and not case.context.kind.has_rollouts
    ):
        return ()
    if not case.context.config:
        title = "Score a right and a wrong response by hand, with the reward function or the judge"
        return (Fix(title, (), "one that fails, or cannot read them, looks the same"),)
    effect = "a judge that fails, or that scores everything 0, looks the same"
    return (Fix("Test the judge: grubrics-tui judge-test RUN", (), effect),)


def more_calls(_: Case) -> Fix:
    """Raise the limit of concurrent judge calls; a rule that measured them names the number."""
    effect = "shorter waits, as far as the server's rate limit allows"
    return Fix("Raise judge.max_concurrent", effect=effect)


def longer_calls(case: Case) -> Fix:
    """Triple the time limit of a judge call."""
    effect = "slow replies count instead of being requested again"
    return scaled(case.context, "judge.timeout_s", 3, "Raise judge.timeout_s", effect)


def longer_replies(case: Case) -> Fix:
    """Allow the judge four times as many tokens."""
    effect = "the JSON of a reply is no longer cut"
    return scaled(case.context, "judge.max_tokens", 4, "Raise judge.max_tokens", effect)


def default_temperature(case: Case) -> tuple[Fix, ...]:
    """Let the judge sample at its default temperature, unless it does."""
    key, title = "judge.temperature", "Leave judge.temperature at 1.0"
    if case.context.get(key) == 1.0:
        return ()
    return (setting(case.context, key, 1.0, title, "some models refuse other values"),)


def without_judge(case: Case) -> tuple[Fix, ...]:
    """Use the offline judge, which shows whether only the judge fails."""
    if not asks_server(case.context.get("judge.provider") or OFFLINE.name):
        return ()
    title = "Test the loop with the offline judge"
    effect = "shows whether the rest works; its scores say nothing about quality"
    return (setting(case.context, "judge.provider", "offline", title, effect),)


def rubric_reward(case: Case) -> tuple[Fix, ...]:
    """Use the rubric reward instead of the config's own function, which fails."""
    key = key_of("reward_function")
    if not case.context.get(key):
        return ()
    title = "Score with the rubric reward instead of the custom function"
    return (
        setting(case.context, key, None, title, "shows whether the custom function is at fault"),
    )
