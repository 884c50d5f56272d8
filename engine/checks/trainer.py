"""Check that the trainer supports what the config asks of rewards, sampling and trainer mode.

Some values are read only together with others, or not at all by the reward manager and the sampler
of this project. verl ignores them, or stops after its workers have started. The checks refuse them,
and say what to set instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.base.errors import nearest
from engine.base.quantities import format_count
from engine.base.text import format_config_value
from engine.checks.check import Check, Subject, fail, skip, summary, warn
from engine.config.compose import (
    FILTER,
    MANAGER,
    OVERLONG_BUFFER,
    RECORDING_MANAGER,
    ROLLOUT,
    SAMPLER,
    VERL_MANAGERS,
)
from engine.config.curriculum import find_curriculum
from engine.config.load import Config
from engine.config.presets import KEY as PRESET
from engine.config.presets import preset_names, preset_values
from engine.config.schedule import Schedule, find_conflicts, schedules
from engine.run.history.reward_records import OVERLONG, PARTS
from engine.run.kinds import GRPO

ID = "trainer"

_KWARGS = "reward.reward_kwargs"
_BUFFER = OVERLONG_BUFFER
_OVERLONG_KEYS = (
    *(f"{_BUFFER}.{name}" for name in ("enable", "len", "penalty_factor", "log")),
    f"{_KWARGS}.max_resp_len",
)
_MODE = "trainer.v1.trainer_mode"
_SHARES = "grubrics.shares"
_OWN_FUNCTION = "reward.custom_reward_function.path"
_RUBRIC_METRICS = ("reward", *PARTS, "n_chars")


def check(subject: Subject) -> Check:
    """Check reward manager, shaping, filter and trainer mode."""
    config = subject.config
    if config.kind != GRPO:
        return skip(ID, f"{config.kind.title} has only one trainer")
    last = None if subject.steps is None else subject.steps.total
    problems = [*_managers(config), *_overlong(config), *_filters(config), *_separate(config)]
    problems += [*_shares(config), *_schedule(config, last)]
    parts = [f"{config.get(_MODE)}", *_preset(config), *_truncation(config)]
    parts += [f"{one.of.name} {_values(one, last)}" for one in schedules(config.get)]
    if curriculum := find_curriculum(config.get):
        parts += curriculum.describe()
    if shares := config.get(_SHARES):
        shown = zip(config.listed("data.train_files"), shares, strict=False)
        total = sum(shares) or 1
        parts.append(", ".join(f"{share / total:.0%} of {file}" for file, share in shown))
    if config.get(f"{FILTER}.enable"):
        limit = config.get(f"{SAMPLER}.sampler_kwargs.max_refill_batches")
        metric = config.get(f"{FILTER}.metric")
        parts.append(f"groups of equal {metric} are replaced, at most {limit} batches a step")
    if config.get(f"{_BUFFER}.enable"):
        buffer, limit = config.get(f"{_BUFFER}.len"), config.get(f"{_KWARGS}.max_resp_len")
        parts.append(f"the last {buffer} of {limit} tokens are penalized")
    return summary(ID, problems, "; ".join(parts))


def _shares(config: Config) -> Iterator[Check]:
    """Each training file has a share, and verl's data set is not replaced by another one, too."""
    shares, files = config.get(_SHARES), config.listed("data.train_files")
    if not shares:
        return
    if len(shares) != len(files):
        yield fail(
            ID,
            f"{_SHARES} has {format_count(len(shares), 'share')}, data.train_files has "
            f"{format_count(len(files), 'file')}: {', '.join(map(str, files))}",
        )
    elif not sum(shares):
        yield fail(ID, f"{_SHARES}={shares}: no file has a share above 0")
    if own := config.get("data.custom_cls.path"):
        message = f"{_SHARES} and data.custom_cls.path={own} both decide how rows are read"
        yield fail(ID, message, f"{_SHARES}=null")


def _schedule(config: Config, last: int | None) -> Iterator[Check]:
    """The trainer can follow the schedules, and the run reaches their ends at step ``last``."""
    for conflict in find_conflicts(config):
        yield fail(ID, conflict.message, conflict.fix)
    for schedule in schedules(config.get):
        if last and last < schedule.steps:
            what = f"the schedule of its {schedule.of.name}, {_values(schedule, last)}"
            yield warn(ID, f"the run ends before {what}", f"{schedule.of.section}.steps={last}")


def _values(schedule: Schedule, last: int | None) -> str:
    """``0.5 -> 0.15 over 150 steps: 0.4977 at step 1, 0.43 at step 30, 0.36 at step 60``."""
    steps = sorted({1, max(1, (last or schedule.steps) // 2), last or schedule.steps})
    values = ", ".join(f"{schedule.text(step)} at step {step}" for step in steps)
    return f"{schedule}: {values}"


def _preset(config: Config) -> Iterator[str]:
    """The algorithm, and which of its values the config sets otherwise."""
    names = preset_names(config.get(PRESET))
    if not names:
        return
    yield f"{'+'.join(names)}, with {PRESET}"
    wanted = preset_values(names, config.get("data.max_response_length"))
    for key, value in wanted.items():
        if config.origins.get(key) != "preset" and config.get(key) != value:
            now, usual = format_config_value(config.get(key)), format_config_value(value)
            yield f"{key}={now} in place of its {usual}"


def _truncation(config: Config) -> Iterator[str]:
    """The sampling settings by which rollouts come from another distribution than the trainer's."""
    whole = {"top_p": (None, 1, 1.0), "top_k": (None, -1, 0)}
    values = {name: config.get(f"{ROLLOUT}.{name}") for name in whole}
    if cut := [f"{name}={values[name]}" for name in whole if values[name] not in whole[name]]:
        tokens = "rollouts leave out unlikely tokens, which the trainer's probabilities include"
        yield f"{' and '.join(cut)}: {tokens} (rollout_probs_diff rises)"


def _managers(config: Config) -> Iterator[Check]:
    name = config.get(f"{MANAGER}.name")
    if config.get("reward.reward_model.enable"):
        yield fail(
            ID,
            "reward.reward_model.enable=true: reward models are not used; rewards come from the "
            "judge or from the config's own function, which can call a server",
            f"reward.reward_model.enable=false {_OWN_FUNCTION}=FILE",
        )
    if config.get("trainer.use_v1") is False:
        yield fail(
            ID, "trainer.use_v1=false: only the V1 trainer is supported", "trainer.use_v1=true"
        )
    if name == RECORDING_MANAGER:
        return
    if config.get(f"{MANAGER}.module.path") is not None:
        yield warn(
            ID,
            f"{MANAGER}.name={name} is the config's own: it writes no reward.jsonl, and uses the "
            f"judge or {_OWN_FUNCTION} only if it calls them itself",
        )
        return
    if name == "naive":
        yield fail(
            ID,
            f"{MANAGER}.name=naive: verl's naive manager does not lower the reward of long "
            f"responses, as {_BUFFER}.enable=true asks",
            f"{MANAGER}.name=dapo, or {_BUFFER}.enable=false",
        )
        return
    known = ", ".join(VERL_MANAGERS)
    yield fail(
        ID,
        f"{MANAGER}.name={name} cannot record its rewards; known: {known}"
        + (" (calls are limited by judge.max_concurrent)" if name == "rate_limited" else ""),
        f"{MANAGER}.name=naive",
    )


def _overlong(config: Config) -> Iterator[Check]:
    """Check the overlong buffer. verl asserts the same in a worker, in its ``dapo`` manager."""
    for key in sorted(key for key in config.values if key.startswith(f"{_KWARGS}.")):
        if key not in _OVERLONG_KEYS:
            close = nearest(key, _OVERLONG_KEYS) or _OVERLONG_KEYS[0]
            yield fail(ID, f"{key} has no effect: nothing reads it", f"{close}={config.get(key)}")
    if not config.get(f"{_BUFFER}.enable"):
        return
    longest = config.get("data.max_response_length")
    values = {key: config.get(key) for key in (*_OVERLONG_KEYS[1:3], _OVERLONG_KEYS[4])}
    usual = {f"{_KWARGS}.max_resp_len": longest, f"{_BUFFER}.len": max(1, longest // 5)}
    for key, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or value < 0 or (value == 0 and key != f"{_BUFFER}.penalty_factor"):
            problem = "is missing" if value is None else f"={value} must be a number above 0"
            fix = f"{key}={usual.get(key, 1.0)}"
            yield fail(ID, f"{key}{' ' if value is None else ''}{problem}", fix)
            return
    length, limit = values[f"{_BUFFER}.len"], values[f"{_KWARGS}.max_resp_len"]
    if length > limit:
        message = f"{_BUFFER}.len={length} is more than {_KWARGS}.max_resp_len={limit}"
        yield fail(ID, message, f"{_BUFFER}.len={max(1, limit // 5)}")
    elif limit - length >= longest:
        message = (
            f"{_BUFFER} begins after {limit - length} tokens, and no response is longer than "
            f"data.max_response_length={longest}"
        )
        yield warn(ID, message, f"{_KWARGS}.max_resp_len={longest}")


def _filters(config: Config) -> Iterator[Check]:
    refills = config.get(f"{SAMPLER}.sync_refill_failed_groups")
    filters, mode = config.get(f"{FILTER}.enable"), config.get(_MODE)
    size, batch = config.get("data.gen_batch_size"), config.get("data.train_batch_size")
    if size not in (None, 1) and (filters or refills or mode != "sync"):
        reason = "a step that replaces groups fetches single prompts"
        message = f"data.gen_batch_size={size} has no effect: {reason}"
        yield warn(ID, message, "data.gen_batch_size=1")
    elif size and batch % size:
        message = f"data.gen_batch_size={size} does not divide data.train_batch_size={batch}"
        yield fail(ID, message, f"data.gen_batch_size={batch}")
    has_own_sampler = config.get(f"{SAMPLER}.custom_sampler.path") != "pkg://engine.train.sampler"
    if has_own_sampler and (filters or refills):
        key = f"{FILTER}.enable" if filters else f"{SAMPLER}.sync_refill_failed_groups"
        yield warn(ID, f"{key}=true reaches the config's own sampler only in sampler_kwargs")
    if not filters:
        return
    if config.get(f"{ROLLOUT}.n") < 2:
        yield fail(ID, f"{FILTER}.enable=true compares the rollouts of a prompt", f"{ROLLOUT}.n=8")
    yield from _metric(config)


def _metric(config: Config) -> Iterator[Check]:
    """Check the metric by which groups are compared. Those of an own function are unknown."""
    metric = config.get(f"{FILTER}.metric")
    shaping = (OVERLONG, "overlong") if config.get(f"{_BUFFER}.log") else ()
    known = (*_RUBRIC_METRICS, *shaping)
    if not metric or metric in ("seq_reward", "seq_final_reward"):
        yield fail(ID, f"{FILTER}.metric={metric} names no metric", f"{FILTER}.metric=reward")
    elif metric not in known and not config.get(_OWN_FUNCTION):
        message = f"{FILTER}.metric={metric} is not a metric of the GRubrics reward"
        close = nearest(str(metric), known) or "reward"
        yield fail(ID, f"{message}; known: {', '.join(known)}", f"{FILTER}.metric={close}")


def _separate(config: Config) -> Iterator[Check]:
    """Check what verl asserts when it starts the trainer (``trainer_separate_async.py``)."""
    if config.get(_MODE) != "separate_async":
        return
    if config.get(f"{ROLLOUT}.name") == "hf":
        message = f"{_MODE}=separate_async needs a rollout engine on separate GPUs, not 'hf'"
        yield fail(ID, message, f"{_MODE}=colocate_async")
        return
    batch, sync = "data.train_batch_size", "trainer.v1.separate_async.parameter_sync_step"
    mini = "actor_rollout_ref.actor.ppo_mini_batch_size"
    if config.get(batch) != config.get(sync) * config.get(mini):
        message = f"{batch}={config.get(batch)} must be {sync} x {mini}"
        yield fail(ID, message, f"{batch}={config.get(sync) * config.get(mini)}")
    for key in (f"{ROLLOUT}.nnodes", f"{ROLLOUT}.n_gpus_per_node"):
        if not (config.get(key) or 0) > 0:
            message = f"{key}={config.get(key)}: separate_async generates on separate GPUs"
            yield fail(ID, message, f"{key}=1")
    backend = f"{ROLLOUT}.checkpoint_engine.backend"
    if config.get(backend) == "naive":
        yield fail(ID, f"{backend}=naive cannot reach another GPU", f"{backend}=nccl")
