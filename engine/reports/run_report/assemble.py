"""Make a report of runs: read everything, and name what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.times import MISSING
from engine.base.values import format_config_value
from engine.doctor.health import health_from
from engine.formats.external_run import ExternalRun
from engine.history.metrics import VALIDATION_LOSS, VALIDATION_REWARD
from engine.history.sweep import Sweep, read_sweep
from engine.reports.compare import Comparer, Comparison, check_groups
from engine.reports.differences import SHELL, Difference, short_text
from engine.reports.measure_text import format_delta, format_half, format_value
from engine.reports.measures import Measure
from engine.reports.run_record import RunRecord
from engine.reports.run_report.curves import choose_metrics, draw_metrics, draw_sweeps
from engine.reports.run_report.evaluations import is_checkpoint_of, read_evaluations
from engine.reports.run_report.facts import (
    costs_table,
    data_table,
    environment_table,
    files_table,
    manifest_table,
    mapping_of,
    runs_table,
)
from engine.reports.run_report.problems import find_findings, make_problem, merge_problems
from engine.reports.run_report.publish import Publisher, published_manifest, published_value
from engine.reports.run_report.report import (
    Block,
    Charts,
    Legend,
    Problem,
    Report,
    Sample,
    Section,
    Table,
)
from engine.reports.run_report.samples import choose_samples
from engine.reports.same_rewards import format_kinds, format_reward_differences
from engine.runs.kinds import find_kind
from engine.runs.manifest import changed_values
from engine.runs.rundir import RunDir
from engine.runs.trust import exposures

_LETTERS = "ABCDEFGH"


@dataclass(frozen=True)
class Choice:
    """What a report is to contain. ``evaluations`` is the folder of a project's evaluations.

    ``metrics``: those to draw; empty for the usual ones. ``log``: those with a logarithmic axis.
    ``samples``: rollouts of each run. ``date`` is written below the title.
    """

    metrics: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    samples: int = 3
    date: str = ""
    evaluations: Path = Path("evaluations")


@dataclass
class _Material:
    """Everything that was read, by run ID, and the gaps that this has shown."""

    ids: list[str]
    sources: dict[str, RunDir | ExternalRun]
    records: dict[str, RunRecord]
    problems: list[Problem] = field(default_factory=list)
    missing: dict[str, list[str]] = field(default_factory=dict)
    """The runs that have a gap, by its description."""

    def miss(self, run: str, gap: str) -> None:
        self.missing.setdefault(gap, []).append(run)

    @property
    def gaps(self) -> tuple[str, ...]:
        return tuple(
            f"{', '.join(filter(None, runs))}: {gap}" for gap, runs in self.missing.items()
        )


def make_report(sources: Mapping[str, RunDir | ExternalRun], choice: Choice) -> Report:
    """Read the runs, which have distinct IDs, and describe them. Nothing is written.

    The first run is the baseline. UsageError for a metric that no run has logged, and for more
    groups than there are colors.
    """
    material = _read(sources)
    publisher = Publisher.of([record.manifest for record in material.records.values()])
    records = list(material.records.values())
    comparer = Comparer(records)
    check_groups(comparer.groups)
    comparison = comparer.compare()
    legend = _legend(comparison)
    metrics = choose_metrics(records, choice.metrics, choice.log)
    sections = (
        Section("runs", "Runs", (runs_table(legend, material.records),)),
        _findings(material),
        Section("results", "Results", (_results(comparison, legend),), _ends(comparison)),
        Section("curves", "Curves", _curves(material, legend, metrics, choice)),
        _config(comparison, legend, material),
        Section("evaluations", "Evaluations", tuple(_evaluations(material, choice.evaluations))),
        Section("samples", "Samples", tuple(_samples(material, choice.samples, publisher))),
        Section("environment", "Environment", tuple(_environment(comparison, legend, material))),
        Section("data", "Data and code", _present(data_table(legend, material.records))),
        Section("costs", "Costs", (costs_table(legend, material.records),)),
        Section(
            "manifest",
            "Manifest",
            (
                manifest_table(legend, material.records),
                files_table(list(material.sources.items())),
            ),
        ),
    )
    report = Report(
        ", ".join(entry.name for entry in legend),
        choice.date,
        legend,
        material.gaps,
        tuple(section for section in sections if section.blocks or section.lead),
    )
    return publisher.all(report)


def _read(sources: Mapping[str, RunDir | ExternalRun]) -> _Material:
    material = _Material(list(sources), dict(sources), {})
    for run, source in sources.items():
        record = RunRecord.read(source, run, examine=False)
        record.manifest = published_manifest(record.manifest)
        material.records[run] = record
        _diagnose(material, run)
        for gap in _gaps(source, record):
            material.miss(run, gap)
    return material


def _diagnose(material: _Material, run: str) -> None:
    record = material.records[run]
    try:
        findings = find_findings(material.sources[run])
    except Exception as error:  # A rule of a package may raise anything.
        material.miss(run, f"could not be diagnosed: {error}")
        return
    material.problems += [make_problem(run, finding) for finding in findings]
    if record.state.state == "finished":
        record.health = health_from(findings)


def _findings(material: _Material) -> Section:
    lead = () if material.problems else ("No known problems found.",)
    return Section("findings", "Findings", tuple(merge_problems(material.problems)), lead)


def _gaps(source: RunDir | ExternalRun, record: RunRecord) -> Iterator[str]:
    """What a run does not have (yet)."""
    state, steps = record.state, record.steps()
    if not state.has_ended and state.state != "foreign":
        last = f"up to step {steps[-1]:.0f}" if steps.size else "no step yet"
        yield f"{state.word}, {last}"
    elif not steps.size:
        yield "ended before the first step: no curves"
    if not any(len(record.columns.get(name)) for name in (VALIDATION_REWARD, VALIDATION_LOSS)):
        yield "no validation is logged"
    if isinstance(source, ExternalRun):
        yield "the log of another trainer: environment, data and launch are unknown"
        return
    manifest = record.manifest
    missing = [
        name
        for name, key in (("configuration", "config"), ("environment", "environment"))
        if not manifest.get(key)
    ]
    missing += [] if mapping_of(manifest, "git").get("commit") else ["commit"]
    if missing:
        yield f"the manifest has no {', no '.join(missing)}"
    if exposed := exposures(source):
        yield f"other users could have written the run: {'; '.join(exposed)}"


def _legend(comparison: Comparison) -> tuple[Legend, ...]:
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


def _names(legend: Sequence[Legend]) -> tuple[str, ...]:
    return tuple(f"{entry.key} {entry.name}".strip() for entry in legend)


def _ends(comparison: Comparison) -> tuple[str, ...]:
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


def _results(comparison: Comparison, legend: Sequence[Legend]) -> Table:
    rows = tuple((row.name, *_result_cells(row)) for row in comparison.summary)
    return Table(("", *_names(legend)), rows)


def _result_cells(row: Measure) -> Iterator[str]:
    """Value with half its interval, difference from the first column, and step."""
    for index, (entry, other) in enumerate(zip(row.entries, row.comparisons(0), strict=True)):
        parts = [format_value(entry.value, row.unit) + format_half(entry.estimate, row.unit)]
        if other is not None and index:
            estimate = other.difference
            delta = format_delta(estimate.mean, row.unit) + format_half(estimate, row.unit)
            parts.append(f"({delta})")
        if entry.step is not None:
            parts.append(f"at {entry.step:,}")
        yield " ".join(parts)


def _curves(
    material: _Material, legend: Sequence[Legend], metrics: Sequence[str], choice: Choice
) -> tuple[Block, ...]:
    charts = [*draw_metrics([*material.records.values()], legend, metrics, choice.log)]
    charts += draw_sweeps(list(_sweeps(material, legend)))
    return (Charts(tuple(charts)),) if charts else ()


def _sweeps(material: _Material, legend: Sequence[Legend]) -> Iterator[tuple[Legend, str, Sweep]]:
    for entry in legend:
        for run in entry.runs:
            source = material.sources[run]
            sweep = read_sweep(source) if isinstance(source, RunDir) else None
            if sweep is not None and sweep.points:
                yield entry, run, sweep


def _config(comparison: Comparison, legend: Sequence[Legend], material: _Material) -> Section:
    """The keys that differ between the runs; of one run, those that differ from its file."""
    if len(comparison.groups) > 1:
        rows = tuple(map(_difference_row, comparison.config))
        unknown = ", ".join(comparison.without_config)
        lead = (f"Not known of {unknown}.",) if unknown else () if rows else ("No key differs.",)
        blocks = (Table(("key", *_names(legend)), rows),) if rows else ()
        return Section("config", "Config differences", blocks, lead)
    record = next(iter(material.records.values()))
    rows = tuple(
        (
            change["key"],
            *(format_config_value(change[side]) for side in ("before", "after")),
            str(change["origin"]),
        )
        for change in changed_values(record.manifest)
    )
    blocks = (Table(("key", "in the file", "in the run", "set by"), rows),) if rows else ()
    lead = () if rows else ("Nothing was set over the config file.",)
    return Section("config", "Overrides", blocks, lead)


def _difference_row(difference: Difference) -> tuple[str, ...]:
    cells = (
        MISSING if cell is None else short_text(published_value(difference.key, cell.value))
        for cell in difference.cells
    )
    return (difference.name, *cells)


def _evaluations(material: _Material, folder: Path) -> Iterator[Block]:
    own = [run for run in material.ids if isinstance(material.sources[run], RunDir)]
    measured: set[str] = set()
    for name, tables in read_evaluations(folder, own):
        if not tables:
            material.miss(f"evaluation {name}", "cannot be read")
        for number, table in enumerate(tables):
            measured |= {
                run for row in table.rows for run in own if is_checkpoint_of(row[0], [run])
            }
            yield Table(table.head, table.rows, "" if number else name, table.note)
    for run in own:
        if run not in measured:
            material.miss(run, f"no evaluation in {folder}/ has measured a checkpoint")


def _samples(material: _Material, count: int, publisher: Publisher) -> Iterator[Sample]:
    for run, source in material.sources.items():
        kind = find_kind(material.records[run].manifest.get("kind"))
        if count < 1 or not isinstance(source, RunDir) or kind is None or not kind.has_rollouts:
            continue
        chosen = list(choose_samples(source, count, publisher))
        if not chosen:
            material.miss(run, "no rollout with a score")
        yield from chosen


def _environment(
    comparison: Comparison, legend: Sequence[Legend], material: _Material
) -> Iterator[Table]:
    relevant = [row for row in comparison.environment if row.section != SHELL]
    if relevant:
        rows = tuple(map(_difference_row, relevant))
        yield Table(("", *_names(legend)), rows, title="What differs")
    if (table := environment_table(legend, material.records)) is not None:
        yield Table(table.head, table.rows, title="At the launch")


def _present(*tables: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in tables if table is not None)
