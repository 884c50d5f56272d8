"""The tables of a report: states, results, differences, machines, data, costs, files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.base import files
from engine.base.masking import mask_words
from engine.base.quantities import (
    MISSING,
    format_count,
    format_duration,
    format_size,
    format_time,
    format_whole,
)
from engine.base.text import format_command, format_config_value
from engine.doctor.health import format_health
from engine.logs.formats.external_run import ExternalRun
from engine.report.compare import Comparison
from engine.report.differences import (
    SHELL,
    Difference,
    format_kinds,
    format_reward_differences,
    short_text,
)
from engine.report.measures import result_parts
from engine.report.run_record import RunRecord
from engine.report.run_report.publish import published_value
from engine.report.run_report.report import Legend, Section, Table
from engine.run.history import metrics
from engine.run.history.metrics import JUDGE_CALLS, JUDGE_ERRORS, JUDGE_TOKENS_IN, JUDGE_TOKENS_OUT
from engine.run.manifest import Manifest
from engine.run.run import Run
from engine.run.state import describe

_FILES = {
    "recipe_file": "config file",
    "data": "data",
    "code": "reward function",
    "reward_inputs": "reward inputs",
    "tools": "tools",
    "model": "base model",
}


def runs_table(legend: Sequence[Legend], records: Mapping[str, RunRecord]) -> Table:
    """A row per run: what it is, how it ended, how far it came."""
    rows = []
    for entry in legend:
        for run in entry.runs:
            record = records[run]
            rows.append(
                (
                    entry.key,
                    run,
                    record.kind,
                    record.manifest.config_name or MISSING,
                    _state(record),
                    format_health(record.health) or MISSING,
                    _progress(record),
                    format_time(record.state.first_start, utc=True),
                    format_duration(record.seconds()),
                )
            )
    head = ("", "run", "kind", "config", "state", "health", "step", "started (UTC)", "time")
    return _keyed(head, rows)


def _keyed(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], title: str = "") -> Table:
    """A table whose first column has the letters of the legend; without it if there are none."""
    start = 0 if any(row[0] for row in rows) else 1
    return Table(head[start:], tuple(row[start:] for row in rows), title)


def _state(record: RunRecord) -> str:
    """The state; of a run that has ended with the reason. Other reasons change by the second."""
    return describe(record.state) if record.state.has_ended else record.state.word


def _progress(record: RunRecord) -> str:
    steps, total = record.steps(), record.state.total_steps or record.manifest.total_steps
    done = f"{steps[-1]:,.0f}" if steps.size else "0"
    return f"{done} of {total:,}" if total else done


def environment_table(legend: Sequence[Legend], records: Mapping[str, RunRecord]) -> Table | None:
    """A row per fact and a column per line of the legend; None if nothing is known."""
    columns = [
        _joined([dict(_environment(records[run].manifest)) for run in entry.runs])
        for entry in legend
    ]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = tuple((name, *(column.get(name, MISSING) for column in columns)) for name in names)
    head = ("", *(entry.key or entry.name for entry in legend))
    return Table(head, rows, title="At the launch") if rows else None


def _joined(facts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """One text per fact for several runs, which lists values that differ."""
    names = dict.fromkeys(name for of_run in facts for name in of_run)
    return {
        name: ", ".join(dict.fromkeys(of_run.get(name, MISSING) for of_run in facts))
        for name in names
    }


def _environment(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Commit, machine and software, as of the launch."""
    git, hardware, software = manifest.git or {}, manifest.hardware, manifest.environment
    if commit := git.get("commit"):
        yield "commit", f"{commit}{_tree_state(git.get('dirty'))}"
    if "gpus" in hardware:
        yield "GPUs", _gpus(hardware["gpus"])
    if hardware.get("cpu"):
        yield "CPU", f"{hardware['cpu']}, {hardware.get('cpu_count')} cores"
    if isinstance(memory := hardware.get("memory"), int):
        yield "memory", format_size(memory)
    for name in ("python", "platform"):
        if software.get(name):
            yield name, str(software[name])
    packages = software.get("packages")
    for name, version in sorted(packages.items()) if isinstance(packages, dict) else ():
        yield str(name), str(version)


def _tree_state(dirty: object) -> str:
    if dirty is None:
        return ", state of the files unknown"
    return ", with uncommitted changes" if dirty else ", clean"


def _gpus(listed: object) -> str:
    """``2 x NVIDIA H100 80GB HBM3``, or ``none``."""
    gpus = [gpu for gpu in listed if isinstance(gpu, dict)] if isinstance(listed, list) else []
    names = Counter(str(gpu.get("name")) for gpu in gpus)
    return ", ".join(f"{count} x {name}" for name, count in names.items()) or "none"


def data_table(legend: Sequence[Legend], records: Mapping[str, RunRecord]) -> Table | None:
    """The fingerprints of files that decide what a run does, each once; None without any."""
    users: dict[tuple[str, ...], list[str]] = {}
    for entry in legend:
        for run in entry.runs:
            for row in _fingerprints(records[run].manifest):
                users.setdefault(row, []).append(entry.key or entry.name)
    rows = tuple((*row[:3], ", ".join(dict.fromkeys(users[row])), row[3]) for row in users)
    return Table(("file of", "path", "rows", "used by", "SHA-256"), rows) if rows else None


def _fingerprints(manifest: Manifest) -> Iterator[tuple[str, ...]]:
    for part, title in _FILES.items():
        for path, facts in manifest.files(part).items():
            sampled = "" if facts.sha256 else " (of samples of the file)"
            yield title, path, format_whole(facts.rows), f"{facts.digest}{sampled}"


def costs_table(legend: Sequence[Legend], records: Mapping[str, RunRecord]) -> Table:
    """A row per run: time, GPU hours, tokens, calls of the judge and their price."""
    rows = []
    for entry in legend:
        for run in entry.runs:
            record = records[run]
            rows.append((entry.key, run, *_costs(record)))
    head = (
        *("", "run", "time", "GPU hours", "tokens", "judge calls", "failed calls"),
        *("tokens to the judge", "from the judge", "USD"),
    )
    note = "Judge calls of training steps; those of validations are not logged."
    return replace(_keyed(head, rows), note=note)


def _costs(record: RunRecord) -> Iterator[str]:
    seconds, gpus = record.seconds(), record.manifest.gpus
    yield format_duration(seconds)
    yield f"{gpus * seconds / 3600:,.2f}" if seconds is not None and gpus is not None else MISSING
    yield format_whole(
        next((total for name in metrics.TOKENS if (total := _sum(record, name))), None)
    )
    sums = [_sum(record, name) for name in (JUDGE_CALLS, JUDGE_ERRORS)]
    tokens = [_sum(record, name) for name in (JUDGE_TOKENS_IN, JUDGE_TOKENS_OUT)]
    yield from map(format_whole, (*sums, *tokens))
    keys = [f"judge.usd_per_million_{way}" for way in ("in", "out")]
    prices = map(record.manifest.value, keys)
    known = [
        price * count / 1e6
        for price, count in zip(prices, tokens, strict=True)
        if isinstance(price, int | float) and count is not None
    ]
    yield f"{sum(known):,.2f}" if len(known) == 2 else MISSING


def _sum(record: RunRecord, metric: str) -> float | None:
    values = record.values(metric)[1]
    return float(np.sum(values)) if values.size else None


def manifest_table(legend: Sequence[Legend], records: Mapping[str, RunRecord]) -> Table:
    """A row per fact of each run: how it was launched, and what it was launched with."""
    rows = tuple(
        (entry.key, run, name, text)
        for entry in legend
        for run in entry.runs
        for name, text in _launch(records[run].manifest)
        if text
    )
    return _keyed(("", "run", "", ""), rows, "Launch")


def _launch(manifest: Manifest) -> Iterator[tuple[str, str]]:
    created = manifest.created
    yield "created (UTC)", "" if created is None else format_time(created, utc=True)
    yield "config file", manifest.config_path or ""
    yield "configuration", manifest.fingerprint or ""
    yield "derived", manifest.parent_phrase
    yield (
        "overrides",
        ", ".join(
            f"{change.key}={format_config_value(change.after)}"
            for change in manifest.effective_changes
        ),
    )
    yield "seeds", ", ".join(f"{key}={value}" for key, value in manifest.seeds.items())
    # Before quotes and escapes of the shell get into a secret.
    yield "command", format_command(mask_words(manifest.argv))
    attempts = len(manifest.attempts)
    yield "attempts", format_count(attempts, "attempt") if attempts > 1 else ""


def files_table(sources: Sequence[tuple[str, Run | ExternalRun]]) -> Table:
    """The files that the numbers were read from, with their SHA-256 at that moment."""
    rows = tuple(
        (run, name, f"{path.stat().st_size:,}", files.content_hash(path))
        for run, source in sources
        for name, path in _read_files(source)
        if path.is_file()
    )
    return Table(("run", "file", "bytes", "SHA-256"), rows, title="Files")


def _read_files(source: Run | ExternalRun) -> Iterator[tuple[str, Path]]:
    if isinstance(source, ExternalRun):
        yield source.path.name, source.path
        return
    read = (source.manifest_file, source.settings_file, source.config_file, source.train_log)
    yield from ((path.name, path) for path in read)


_LETTERS = "ABCDEFGH"


def make_legend(comparison: Comparison) -> tuple[Legend, ...]:
    """A letter and a color for each group; no letter if there is only one."""
    groups, ids = comparison.groups, comparison.ids
    return tuple(
        Legend(
            _LETTERS[index] if len(groups) > 1 else "",
            index + 1,
            group.name,
            tuple(ids[member] for member in group.members),
            group.label if len(group.members) > 1 else "",
        )
        for index, group in enumerate(groups)
    )


def column_names(legend: Sequence[Legend]) -> tuple[str, ...]:
    return tuple(f"{entry.key} {entry.name}".strip() for entry in legend)


def describe_results(comparison: Comparison) -> tuple[str, ...]:
    """How to read the results, and why some of them cannot be compared."""
    if len(comparison.groups) == 1 and not comparison.has_intervals:
        return ()
    sentences = ["Each run at its last step."]
    if len(comparison.groups) > 1:
        sentences.append(f"Differences in parentheses are to {comparison.names[0]}.")
    if comparison.has_intervals:
        sentences.append("± is half of the 95% interval over the seeds.")
    else:
        sentences.append("One run each: differences may be chance.")
    remarks = (
        format_reward_differences(comparison.reward_keys),
        format_kinds(comparison.kinds, comparison.shared),
        *(f"{n.other} and {n.run}: {n.finding.title}" for n in comparison.no_effect),
    )
    return (" ".join(sentences), *(f"Note: {remark}" for remark in remarks if remark))


def results_table(comparison: Comparison, legend: Sequence[Legend]) -> Table:
    rows = tuple((row.name, *map(" ".join, result_parts(row, 0))) for row in comparison.summary)
    return Table(("", *column_names(legend)), rows)


def config_section(
    comparison: Comparison, legend: Sequence[Legend], records: Sequence[RunRecord]
) -> Section:
    """The keys that differ between the groups; of one group, those that differ from the file of its
    first run."""
    if len(comparison.groups) > 1:
        rows = tuple(map(_difference_row, comparison.config))
        unknown = ", ".join(comparison.without_config)
        lead = (f"Not known of {unknown}.",) if unknown else () if rows else ("No key differs.",)
        blocks = (Table(("key", *column_names(legend)), rows),) if rows else ()
        return Section("config", "Config differences", blocks, lead)
    record = records[0]
    rows = tuple(
        (
            change.key,
            format_config_value(change.before),
            format_config_value(change.after),
            str(change.origin),
        )
        for change in record.manifest.effective_changes
    )
    blocks = (Table(("key", "in the file", "in the run", "set by"), rows),) if rows else ()
    lead = () if rows else ("Nothing was set over the config file.",)
    if rows and len(records) > 1:
        lead = (f"Those of {record.id}; the runs differ in their seeds.",)
    return Section("config", "Overrides", blocks, lead)


def environment_differences_table(comparison: Comparison, legend: Sequence[Legend]) -> Table | None:
    """What the runs ran on that differs and can change the training; None if nothing does."""
    relevant = [row for row in comparison.environment if row.section != SHELL]
    if not relevant:
        return None
    rows = tuple(map(_difference_row, relevant))
    return Table(("", *column_names(legend)), rows, title="What differs")


def _difference_row(difference: Difference) -> tuple[str, ...]:
    cells = (
        MISSING if cell is None else short_text(published_value(difference.key, cell.value))
        for cell in difference.cells
    )
    return (difference.name, *cells)
