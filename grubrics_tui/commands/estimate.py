"""``grubrics-tui estimate``: memory, disk, judge calls and duration of a config."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.base.quantities import format_count, format_seconds
from engine.base.tables import aligned_lines
from engine.base.text import format_command
from engine.run.run import Run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, option, options
from grubrics_tui.commands.shared.output import warn_of_unread_parquet

if TYPE_CHECKING:
    from engine.checks.estimate.memory import Breakdown
    from engine.checks.estimate.report import Estimate, Measured, Sizes
    from engine.config.load import Config


def estimate(
    source: options.SourceArgument,
    overrides: options.OverridesArgument = None,
    gpu_memory: Annotated[
        str | None,
        option(
            "GIB",
            "Memory of one GPU in GiB (default: the smallest GPU of this host)",
            "--gpu-memory",
        ),
    ] = None,
    gpus: Annotated[
        int | None, option("N", "Estimate for this many GPUs (default: as in the config)")
    ] = None,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Estimate memory, disk, judge calls and duration of a run.

    For a run that has steps, a table compares the estimate with what the run took.
    Exits with 1 if the run does not fit.
    """
    from engine.checks.estimate.report import estimate as estimated
    from engine.checks.estimate.report import measured_of
    from engine.checks.limits import check_targets
    from engine.launch.rerun import config_of_source

    gpu_bytes, root, changed = _parse_gib(gpu_memory), runs_root(runs), list(overrides or [])
    config, run = config_of_source(source, changed, root)
    if gpus is not None:
        key = config.kind.gpus_key
        if gpus < 1:
            raise UsageError(f"--gpus {gpus}: must be at least 1")
        config, run = config_of_source(source, [*changed, f"{key}={gpus}"], root)
    if gpu_bytes is not None and config.get("grubrics.device") == "cpu":
        raise UsageError(
            f"--gpu-memory {gpu_memory}: {config.name} trains on the CPU; leave the option out, or "
            "add grubrics.device=cuda"
        )
    result = estimated(config, os.environ, root, gpu_bytes)
    shape = None if result.sizes is None else result.sizes.shape
    for check in check_targets(config, shape):
        raise UsageError(f"{config.path}: {check.message} [fix: {check.fix}]")
    warn_of_unread_parquet()
    measured = measured_of(run, result) if run and not changed and gpus is None else []
    value = {"config": config.name, "run": run.id if run else None, **result.to_json()}
    if run:
        value["measured"] = [each.to_json() for each in measured]
    lines = [*_lines(result, config, run), *_measured(measured)]
    answer(value, "\n".join(lines), as_json)
    raise typer.Exit(1 if result.fits is False else 0)


def _parse_gib(gib: str | None) -> int | None:
    """Parse GiB to bytes; UsageError for a size that no GPU has."""
    from engine.checks.estimate.memory import GIB

    if gib is None:
        return None
    try:
        number = float(gib)
    except ValueError:
        number = 0.0
    if not 0 < number < 10_000:
        raise UsageError(f"--gpu-memory {gib}: must be the GiB of one GPU, e.g. 80")
    return int(number * GIB)


def _lines(estimate: Estimate, config: Config, run: Run | None) -> Iterator[str]:
    from engine.base.quantities import format_size

    if estimate.sizes is None:
        yield f"memory: unknown; {estimate.no_sizes}"
    else:
        sizes = estimate.sizes
        yield from _memory(estimate, sizes, config)
        yield ""
        yield from _parts("checkpoint", sizes.checkpoint)
        kept = format_size(sizes.kept * sizes.checkpoint.total)
        yield f"kept at the end: {sizes.kept}, {kept} on disk"
    yield from _judge(estimate, config)
    yield from _duration(estimate, config, run)


def _memory(estimate: Estimate, sizes: Sizes, config: Config) -> Iterator[str]:
    from engine.base.quantities import format_size

    training = sizes.training
    yield from _incomplete(estimate, sizes)
    yield from _weights(sizes)
    device = f"each of {training.gpus} GPUs" if training.gpus > 1 else "one GPU"
    device = "the CPU" if estimate.device == "cpu" else device
    for phase in sizes.memory.phases:
        yield ""
        yield from _parts(f"{phase.name}, on {device}", phase)
    yield ""
    yield from _parts("host memory per node, without that of Python and Ray", sizes.memory.host)
    if estimate.device != "cpu" and sizes.memory.host.total > estimate.host_bytes:
        yield f"more than the {format_size(estimate.host_bytes)} of this host"
    yield f"\n{_verdict(estimate, sizes)}"
    peak = sizes.memory.peak
    if estimate.gpu_bytes is not None and peak.total > estimate.gpu_bytes:
        yield f"to lower '{peak.name}': {', '.join(lowering(peak.name, config))}"
    if sizes.cache is not None:
        yield (
            f"vLLM KV cache: {sizes.cache.tokens:,} tokens of {sizes.cache.per_token:,} B, "
            f"enough for {sizes.cache.sequences:.0f} of the longest samples"
        )
    if not sizes.cache_suffices:
        yield "too small: vLLM needs room for one sample of max_model_len tokens"
        yield f"to enlarge it: {', '.join(_read_tables()['more_cache'])}"


def _weights(sizes: Sizes) -> Iterator[str]:
    """Yield the number of parameters and, with LoRA, the adapters of each linear layer."""
    parameters, training = sizes.shape.weights, sizes.training
    if not training.rank:
        yield f"model: {parameters:,} parameters, full fine-tuning (no LoRA)"
        return
    share = training.trained / (parameters + training.trained)
    yield (
        f"model: {parameters:,} parameters, plus {training.trained:,} trainable LoRA parameters "
        f"({share:.4%} of {parameters + training.trained:,})"
    )
    for part in training.adapters:
        shape = f"{part.rows:,} in + {part.columns:,} out"
        formula = f"{format_count(part.layers, 'layer')} x rank {part.rank} x ({shape})"
        yield f"  {part.name:<24} {part.weights:>13,}   {formula}"


def _incomplete(estimate: Estimate, sizes: Sizes) -> Iterator[str]:
    """Yield a remark if vLLM's memory is left out because the GPU's size is unknown."""
    rollout = sizes.training.rollout
    if estimate.device == "cpu" or estimate.gpu_bytes is not None or rollout is None:
        return
    if rollout.name == "vllm":
        names = [phase.name for phase in sizes.memory.phases]
        stays = rollout.graphs or not rollout.sleeps
        incomplete = ", ".join(names[:-1] if stays else names[:1])
        reason = "no GPU found and --gpu-memory not set"
        yield f"{reason}: vLLM's memory is not included in {incomplete}"


def _verdict(estimate: Estimate, sizes: Sizes) -> str:
    from engine.base.quantities import format_size
    from engine.checks.estimate.memory import certain

    peak = sizes.memory.peak
    text = f"peak: {format_size(peak.total)} in '{peak.name}'"
    if estimate.device == "cpu":
        host = format_size(estimate.host_bytes)
        return f"{text} + Python and Ray, of {host} host memory (CPU run)"
    if estimate.gpu_bytes is None:
        return f"{text} without vLLM's memory; set --gpu-memory, because no GPU was found"
    text = f"{text} of {format_size(estimate.gpu_bytes)}"
    if estimate.room == "at the limit":
        share = f"{peak.total / estimate.gpu_bytes:.0%} of the GPU"
        return f"{text}: at the limit, {share}; fragmentation and NCCL buffers are not included"
    if estimate.room == "may not fit":
        return (
            f"{text}: may not fit; this is an upper bound with all samples at the maximum length, "
            f"and at least {format_size(certain(peak))} are needed"
        )
    return f"{text}: {'fits' if estimate.fits else 'does NOT fit'}"


def _parts(title: str, parts: Breakdown) -> Iterator[str]:
    from engine.base.quantities import format_size

    yield f"{title}: {format_size(parts.total)}"
    for part in parts.parts:
        yield f"  {part.name:<24} {format_size(part.bytes):>10}   {part.how}"


def _judge(estimate: Estimate, config: Config) -> Iterator[str]:
    from engine.base.parquet import import_failure
    from engine.config.scoring import asks_judge, scorer
    from engine.config.steps import step_plan

    use = estimate.judge
    if config.kind.has_rollouts and not asks_judge(config):
        yield f"\njudge: not used; {scorer(config)}"
        return
    if use is None and config.kind.has_rollouts:
        if (error := import_failure()) is not None:
            reason = f"was not read: {error}"
        elif step_plan(config) is None:
            reason = "cannot be read yet"
        else:
            reason = "has too few rows for a step"
        yield f"\njudge: unknown, because {config.get('data.train_files')} {reason}"
        return
    if use is None:
        yield "\njudge: not used (SFT)"
        return
    from engine.checks.estimate.judge import SLOW_S
    from engine.checks.judge import price

    rounds = format_count(use.rounds, "round")
    yield f"\njudge: {use.calls.step} calls/step at concurrency {use.limit} = {rounds}"
    if use.latency is None or use.least_step is None:
        yield "  latency unknown: no earlier run used this judge"
    else:
        enough = use.concurrency_for(SLOW_S)
        least = f"{rounds} x {format_seconds(use.latency)} = {format_seconds(use.least_step)}"
        yield f"  {least} per step at least (run '{use.basis}')"
        needed = f"concurrency {enough} (calls x latency / seconds)"
        yield f"  judging within {SLOW_S:.0f} s per step (longer counts as slow) needs {needed}"
    yield f"  {price(use)}"


def _duration(estimate: Estimate, config: Config, run: Run | None) -> Iterator[str]:
    from engine.base.quantities import format_duration

    expected = estimate.duration
    if expected.steps is None:
        yield "\nduration: unknown, because the number of steps is: its data cannot be read"
    elif expected.seconds is None or expected.basis is None:
        few = f"{config.kind.steps_key}={_MEASURED_STEPS}"
        source = [str(config.path)] if run is None else ["--from", run.id]
        launch = ["grubrics-tui", "launch", *source, *config.overrides, few]
        yield "\nduration: unknown, because no earlier run of this config or size was found"
        yield f"  measure it with {_MEASURED_STEPS} steps: {format_command(launch)}"
    else:
        steps, elapsed = format_count(expected.steps, "step"), format_duration(expected.seconds)
        yield f"\nduration: {steps} in {elapsed}, from {expected.basis}"


def _measured(measured: Sequence[Measured]) -> Iterator[str]:
    if not measured:
        return
    rows = [["measured in this run", "estimate", "measured", "error"]]
    for each in measured:
        amounts = (_amount(value, each.unit) for value in (each.estimate, each.measured))
        unknown = "-" if each.is_partial else "unknown"
        rows.append([each.name, *amounts, unknown if each.error is None else f"{each.error:+.0%}"])
    yield ""
    yield from aligned_lines(rows, numbers=True)
    yield from (f"  {each.name}: {each.note}" for each in measured if each.note)


def _amount(value: float | None, unit: str) -> str:
    from engine.base.quantities import format_size

    if value is None:
        return "unknown"
    return format_size(round(value)) if unit == "bytes" else f"{value:,.1f}".removesuffix(".0")


_MEASURED_STEPS = 5
"""Steps of a run from which a duration is estimated; three are the fewest."""
_TABLES = Path(__file__).with_suffix(".yaml")


def _read_tables() -> Any:
    from engine.base.yaml_files import read_table  # The list of commands needs no YAML.

    return read_table(_TABLES)


def lowering(phase: str, config: Config) -> list[str]:
    """Return the config keys that lower the memory of a phase, the most effective first."""
    tables, keys = _read_tables(), list[str]()
    for name in tables["lower"][config.kind.name][phase]:
        if name in tables["dynamic"]:
            switch, token_limit = tables["dynamic"][name]
            keys += [token_limit] if config.get(switch) else [name, switch]
        else:
            keys.append(name)
    return [key for key in keys if config.get(key) is not True]


COMMAND = Command(estimate, Task.PREPARE)
