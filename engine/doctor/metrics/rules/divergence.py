"""Updates that are too large: KL, gradients or the loss run away.

KL: above 1 nat a token (0.5 for one update) and five times what it was at first, to the end.
Gradients: the norm has been ten times its early level for 3 steps to the end, and is above 10
(an error) or 3 (a warning: rewards that get less sparse raise it too). Spikes: three and more of
more than 30 times the median, in a long run one in a thousand steps. Huge: a norm in the thousands
at the end, or in the hundreds in a quarter of the steps with one in the thousands. Loss (SFT):
three times the early level and 1 more, to the end; or it climbs steadily, by a tenth and by
five times its jitter. Gradients and losses are compared with the first
three values and the lowest lasting level too: what diverges at once is its own early level. Policy
loss: it grows by half and more three times in a row, to ten times its size and above 20, which
warns of a collapse some steps ahead.
Ruled out: one spike, a gradient norm that falls, a KL that was as high from the start (a distance
to another model, as in distillation), sums over tokens (``actor/reward_kl_penalty``, the ``kl`` of
KTO), jitter that reaches as far.
Source: classes ("kl above 1 and growing; grad_norm in the hundreds").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from engine.doctor.metrics.rules.collapse import since
from engine.doctor.metrics.run import Run, Series, figure
from engine.doctor.metrics.series_stats import Floats, late, levels, longest, noise, smooth
from engine.findings import remedy_builders as cures
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.history import metrics

KLS = {"actor/kl_loss": 1.0, "actor/ppo_kl": 0.5, "objective/kl": 100.0}
"""What is high, in nats a token. ``ppo_kl`` is the distance that one update goes;
``objective/kl`` is TRL's sum over a response, and so is what KTO logs."""
_PREFERENCES = ("rewards/chosen", "logps/chosen")
_GROWTH = 5.0
_JITTER = 5.0
_GRADIENT = 10.0
_LARGE_NORM, _GRAVE_NORM = 3.0, 10.0
_SPIKE = 30.0
_SPIKES, _SPIKE_SHARE = 3, 0.001
_HIGH, _HUGE, _WILD = 100.0, 1000.0, 0.25
_RISES = 3
_CLIMB_STEPS, _CLIMB, _CLIMB_NOISE, _CLIMB_TREND = 10, 1.1, 5.0, 0.6
_LARGE_LOSS = 20.0


def check(run: Run) -> Iterator[Finding]:
    yield from _kl(run)
    yield from _gradients(run)
    diverged = list(_loss(run))
    yield from diverged or _rising_loss(run)
    yield from _policy_loss(run)


def _kl(run: Run) -> Iterator[Finding]:
    of_pairs = sums_kl(run)
    for name, high in KLS.items():
        kl = run.named(name)
        kl = Series("kl" if of_pairs else name, kl.steps, np.abs(kl.values))
        onset = _grew(kl, KLS["objective/kl"] if of_pairs else high)
        if onset is not None:
            yield _left(run, kl, onset)
            return


def sums_kl(run: Run) -> bool:
    """Whether the KL of the run is summed over sequences, against the reference: as KTO's is."""
    return any(len(run.series(name)) for name in _PREFERENCES)


def _grew(kl: Series, high: float) -> int | None:
    if len(kl) < 5:
        return None
    first, values = min(levels(kl.values)[:2]), smooth(kl.values)
    limit = max(high, _GROWTH * first)
    return since(kl, values > limit, values < max(0.5 * limit, 2 * first))


def _left(run: Run, kl: Series, onset: int) -> Finding:
    first, now = min(levels(kl.values)[:2]), late(kl.values)
    other = "policy before an update" if kl.name == "actor/ppo_kl" else "reference model"
    return Finding(
        "kl_or_grad_blowup.kl",
        Severity.ERROR,
        f"KL grew to {figure(now)}",
        f"The KL distance to the {other} was {figure(first)} at first and is {figure(now)} (median "
        f"of the last 3 steps) since about step {onset}: the policy runs away from it, usually "
        "because updates are too large.",
        (run.change(kl, onset, "rose"), *_spike_witness(run)),
        (
            cures.gentler(run.context),
            cures.held_near_reference(run.context),
            cures.clipped(run.context),
            cures.earlier_checkpoint(onset),
        ),
        onset,
        source="classes: kl above 1 and growing",
    )


def _spike_witness(run: Run) -> Iterator[Evidence]:
    norm = run.series("actor/grad_norm")
    if len(norm) and norm.values.max() > _GRADIENT * np.median(norm.values):
        top = int(np.argmax(norm.values))
        yield run.seen(
            f"gradient norm {figure(norm.values[top])} against a median of "
            f"{figure(float(np.median(norm.values)))}",
            norm.step(top),
        )


def _gradients(run: Run) -> Iterator[Finding]:
    norm = run.series("actor/grad_norm")
    if len(norm) < 6:
        return
    rise = _rise(norm, lambda level: _GRADIENT * level, lambda level: 3 * level)
    if rise is not None and smooth(norm.values)[-1] > _LARGE_NORM:
        yield _risen(run, norm, rise)
        return
    middle = float(np.median(norm.values))
    spikes = np.flatnonzero(norm.values > max(_SPIKE * middle, 10.0))
    if spikes.size >= max(_SPIKES, _SPIKE_SHARE * len(norm)):
        yield _spiky(run, norm, spikes, middle)
    elif late(norm.values) > _HUGE or _is_wild(norm.values):
        yield _huge(run, norm)


@dataclass(frozen=True, slots=True)
class _Rise:
    """``level`` is what the series was like before ``onset``, and ``when`` says when that was."""

    level: float
    onset: int
    when: str


_WHEN = ("at first", "in the first steps", "at its lowest")


def _rise(
    series: Series, high: Callable[[float], float], sound: Callable[[float], float]
) -> _Rise | None:
    """A lasting rise above ``high`` of a level that the series had, once it was above ``sound``.

    Few values are a poor level: against them it must last longer, and be no jitter.
    """
    values, jitter = smooth(series.values), noise(series.values)
    for when, level in zip(_WHEN, levels(series.values), strict=True):
        is_poor = when != _WHEN[0]
        need = max(5, len(series) // 10) if is_poor else 3
        onset = since(series, values > high(level), series.values < sound(level), need)
        above = late(series.values) - level
        if onset is not None and level > 0 and not (is_poor and above < _JITTER * jitter):
            return _Rise(level, onset, when)
    return None


def _is_wild(norms: Floats) -> bool:
    """In both halves: norms of a beginning are often large and fall."""
    high = [float(np.mean(half > _HIGH)) for half in np.array_split(norms, 2)]
    return float(norms.max()) > _HUGE and min(high) >= _WILD


def _huge(run: Run, norm: Series) -> Finding:
    """From the start: there is no level of its own to compare with."""
    onset = norm.step(int(np.argmax(norm.values > _HIGH)))
    newest, often = late(norm.values), float(np.percentile(norm.values, 75))
    now, of = max((newest, "median of the last 3 steps"), (often, "in a quarter of the steps"))
    return Finding(
        "kl_or_grad_blowup.huge",
        Severity.WARNING,
        f"The gradient norm is {figure(now)}",
        f"The gradient norm is {figure(now)} and more ({of}). Clipped to 1, such a gradient keeps "
        "its direction and loses its size; not clipped, one update ruins the weights. Losses that "
        "are summed and not averaged, or weights that are broken already, look like this.",
        (run.seen("gradient norm", onset, norm=now),),
        (cures.clipped(run.context), cures.gentler(run.context)),
        onset,
        confidence=0.7,
        source="classes: grad_norm in the hundreds",
    )


def _risen(run: Run, norm: Series, rise: _Rise) -> Finding:
    onset, now = rise.onset, late(norm.values)
    # Where hardly anything earned a reward in the first steps, there was hardly any gradient.
    is_grave = now > _GRAVE_NORM and rise.when == _WHEN[0]
    return Finding(
        "kl_or_grad_blowup.gradient",
        Severity.ERROR if is_grave else Severity.WARNING,
        f"Gradients grew to {figure(now)}",
        f"The gradient norm was {figure(rise.level)} {rise.when} and is {figure(now)} (median of "
        f"the last 3 steps) since about step {onset}: training diverges. Clipping hides it from "
        "the weights for a while, not for long.",
        (run.change(norm, onset, "rose"),),
        _smaller_updates(run, onset),
        onset,
        source="classes: grad_norm in the hundreds",
    )


def _spiky(run: Run, norm: Series, spikes: np.ndarray, middle: float) -> Finding:
    steps = [norm.step(int(place)) for place in spikes[:5]]
    top = float(norm.values[spikes].max())
    return Finding(
        "kl_or_grad_blowup.spikes",
        Severity.WARNING,
        f"{spikes.size} gradient spikes",
        f"{spikes.size} steps have a gradient norm above {_SPIKE:g} times the median "
        f"{figure(middle)}, up to {figure(top)} (steps {', '.join(map(str, steps))}): single "
        "batches move the weights far.",
        (run.seen("gradient spikes", steps[0], count=int(spikes.size), highest=top),),
        (
            cures.clipped(run.context),
            cures.gentler(run.context, 0.3),
            Remedy("Look at the rows of those batches: overlong, empty or duplicated texts?"),
        ),
        steps[0],
        confidence=0.8,
        source="own baseline: 30 medians",
    )


def _loss(run: Run) -> Iterator[Finding]:
    """A supervised loss that grows; a policy loss is near 0 and says nothing."""
    loss = run.series(metrics.TRAIN_LOSS)
    if loss.name != metrics.TRAIN_LOSS or len(loss) < 6:
        return
    rise = _rise(loss, lambda level: max(3 * level, level + 1.0), lambda level: 1.5 * level + 0.2)
    if rise is None:
        return
    onset, now = rise.onset, late(loss.values)
    yield Finding(
        "kl_or_grad_blowup.loss",
        Severity.ERROR,
        f"The loss exploded to {figure(now)}",
        f"The loss was {figure(rise.level)} {rise.when} and is {figure(now)} (median of the last 3 "
        f"steps) since about step {onset}: the updates are too large for this model.",
        (run.change(loss, onset, "rose"),),
        _smaller_updates(run, onset),
        onset,
        source="own baseline: three times the early loss",
    )


def _rising_loss(run: Run) -> Iterator[Finding]:
    """A cross-entropy that climbs: training makes the model worse. Policy losses mean nothing."""
    loss = run.named(metrics.TRAIN_LOSS)
    if len(loss) < _CLIMB_STEPS or _is_no_cross_entropy(run):
        return
    fifth = max(3, len(loss) // 5)
    before, now = float(np.median(loss.values[:fifth])), late(loss.values, fifth)
    if before <= 0 or now < _CLIMB * before or now - before < _CLIMB_NOISE * noise(loss.values):
        return
    if _trend(loss.values) < _CLIMB_TREND or now < 0.95 * float(smooth(loss.values).max()):
        return
    yield Finding(
        "kl_or_grad_blowup.loss_rises",
        Severity.ERROR,
        f"The loss rises steadily, to {figure(now)}",
        f"The loss was {figure(before)} at first and is {figure(now)} by the end (medians of "
        f"{fifth} steps): training makes the model worse with every step.{_uphill(run)}",
        (
            run.seen(
                f"{loss.name} rose steadily", loss.step(0), before=before, after=now, **_signs(run)
            ),
        ),
        (
            *_positive(run),
            cures.gentler(run.context),
            Remedy("Begin again from the starting model: every checkpoint since is worse than it"),
        ),
        loss.step(0),
        confidence=0.8,
        source="a cross-entropy that is minimized falls",
    )


def _is_no_cross_entropy(run: Run) -> bool:
    return any(len(run.series(name)) for name in (metrics.REWARD_MEAN, *_PREFERENCES, *KLS))


def _trend(values: Floats) -> float:
    """Kendall's tau of the values over time, of at most 200 of them: 1 for a steady rise."""
    thinned = values[:: max(1, values.size // 200)]
    pairs = np.sign(thinned[None, :] - thinned[:, None])[np.triu_indices(thinned.size, 1)]
    return float(pairs.mean())


def _signs(run: Run) -> dict[str, float]:
    """Settings below 0 that turn the direction of an update around."""
    kind = run.context.kind
    keys = (kind.gradient_clip_key, kind.learning_rate_key) if kind else ()
    values = ((key, run.context.get(key)) for key in keys if key is not None)
    return {key: value for key, value in values if isinstance(value, int | float) and value < 0}


def _uphill(run: Run) -> str:
    settings = " and ".join(f"{key}={value:g}" for key, value in _signs(run).items())
    return f" {settings} turns the updates around." if settings else ""


def _positive(run: Run) -> Iterator[Remedy]:
    for key, value in _signs(run).items():
        kind = run.context.kind
        usual = 1.0 if kind and key == kind.gradient_clip_key else abs(value)
        title = f"Set {key} to {{}}"
        yield cures.sounder(run.context, key, usual, lambda number: number > 0, title)


def _policy_loss(run: Run) -> Iterator[Finding]:
    """A policy loss has no level, and yet a sound run's does not grow by half again and again."""
    loss = run.first("actor/pg_loss", "actor/loss")
    if len(loss) <= _RISES:
        return
    size = np.abs(loss.values)
    start, end = longest(size[1:] > 1.5 * size[:-1])
    if end - start < _RISES or size[end] < max(_GRADIENT * size[start], _LARGE_LOSS):
        return
    onset = loss.step(start + 1)
    yield Finding(
        "kl_or_grad_blowup.policy_loss",
        Severity.WARNING,
        f"The policy loss grew to {figure(float(size[end]))}",
        f"The size of the policy loss grew from {figure(float(size[start]))} to "
        f"{figure(float(size[end]))} in {end - start} steps from step {onset} on. Rewards may "
        "still look well: this comes a few steps before a collapse.",
        (run.seen("policy loss", onset, before=float(size[start]), after=float(size[end])),),
        (cures.gentler(run.context), cures.clipped(run.context)),
        onset,
        confidence=0.8,
        source="hardening guide's logs: 6.8, 11, 19, 57, 215, then collapse",
    )


def _smaller_updates(run: Run, onset: int) -> tuple[Remedy, ...]:
    again = cures.earlier_checkpoint(onset)
    return cures.gentler(run.context), cures.clipped(run.context), again
