"""Make a report of runs: read everything, their findings and rollouts, and name what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import UNSET

from engine.base.quantities import format_number
from engine.base.text import format_config_value
from engine.doctor.diagnose import diagnose_file, diagnose_run
from engine.doctor.health import health_from
from engine.logs.formats.external_run import ExternalRun
from engine.report.compare import Comparer, check_groups
from engine.report.run_record import RunRecord
from engine.report.run_report.charts import choose_metrics, draw_metrics, draw_sweeps
from engine.report.run_report.evaluations import is_checkpoint_of, read_evaluations
from engine.report.run_report.publish import Publisher, published_manifest, published_value
from engine.report.run_report.report import (
    Block,
    Charts,
    Legend,
    Problem,
    Report,
    Sample,
    Section,
    Table,
)
from engine.report.run_report.tables import (
    config_section,
    costs_table,
    data_table,
    describe_results,
    environment_differences_table,
    environment_table,
    files_table,
    make_legend,
    manifest_table,
    results_table,
    runs_table,
)
from engine.run.finding import Finding, Fix, format_evidence
from engine.run.history.metrics import VALIDATION_LOSS, VALIDATION_REWARD
from engine.run.history.reward_records import Split
from engine.run.history.rollouts import Group, Rollout, RolloutStore, StepRollouts
from engine.run.history.sweep import Sweep, read_sweep
from engine.run.kinds import find_kind
from engine.run.run import Run
from engine.run.trust import exposures


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
    sources: dict[str, Run | ExternalRun]
    records: dict[str, RunRecord]
    problems: list[Problem] = field(default_factory=list)
    missing: dict[str, list[str]] = field(default_factory=dict)
    """The runs that have a gap, by its description."""

    def miss(self, run: str, gap: str) -> None:
        self.missing.setdefault(gap, []).append(run)

    @property
    def gaps(self) -> tuple[str, ...]:
        return tuple(f"{', '.join(runs)}: {gap}" for gap, runs in self.missing.items())


def make_report(sources: Mapping[str, Run | ExternalRun], choice: Choice) -> Report:
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
    legend = make_legend(comparison)
    metrics = choose_metrics(records, choice.metrics, choice.log)
    problems = sorted(material.problems, key=lambda each: _SEVERITIES.index(each.severity))
    sections = (
        Section("runs", "Runs", (runs_table(legend, material.records),)),
        Section(
            "findings",
            "Findings",
            tuple(problems),
            () if material.problems else ("No known problems found.",),
        ),
        Section(
            "results", "Results", (results_table(comparison, legend),), describe_results(comparison)
        ),
        Section("curves", "Curves", _curves(material, legend, metrics, choice)),
        config_section(comparison, legend, records),
        Section("evaluations", "Evaluations", tuple(_evaluations(material, choice.evaluations))),
        Section("samples", "Samples", tuple(_samples(material, choice.samples, publisher))),
        Section(
            "environment",
            "Environment",
            _present(
                environment_differences_table(comparison, legend),
                environment_table(legend, material.records),
            ),
        ),
        Section("data", "Data and code", _present(data_table(legend, material.records))),
        Section("costs", "Costs", (costs_table(legend, material.records),)),
        Section(
            "manifest",
            "Manifest",
            (manifest_table(legend, material.records), files_table(list(material.sources.items()))),
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


def _read(sources: Mapping[str, Run | ExternalRun]) -> _Material:
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
    record, source = material.records[run], material.sources[run]
    try:
        findings = diagnose_run(source) if isinstance(source, Run) else diagnose_file(source.path)
    except Exception as error:  # A rule of a package may raise anything.
        material.miss(run, f"could not be diagnosed: {error}")
        return
    material.problems += [make_problem(run, finding) for finding in findings]
    if record.state.state == "finished":
        record.health = health_from(findings)


def _gaps(source: Run | ExternalRun, record: RunRecord) -> Iterator[str]:
    """What a run does not have (yet)."""
    state, steps = record.state, record.steps()
    if not state.has_ended and state.state != "external":
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
    missing = [] if manifest.config else ["configuration"]
    missing += [] if manifest.environment else ["environment"]
    missing += ["commit"] if manifest.git is UNSET else []
    if missing:
        yield f"the manifest has no {', no '.join(missing)}"
    elif not manifest.git or not manifest.git.get("commit"):
        yield "no commit: the folder of the launch was no git repository, or had no commit"
    if exposed := exposures(source):
        yield f"other users could have written the run: {'; '.join(exposed)}"


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
            sweep = read_sweep(source) if isinstance(source, Run) else None
            if sweep is not None and sweep.points:
                yield entry, run, sweep


def _evaluations(material: _Material, folder: Path) -> Iterator[Block]:
    own = [run for run in material.ids if isinstance(material.sources[run], Run)]
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
        kind = find_kind(material.records[run].manifest.kind)
        if count < 1 or not isinstance(source, Run) or kind is None or not kind.has_rollouts:
            continue
        chosen = list(choose_samples(source, count, publisher))
        if not chosen:
            material.miss(run, "no rollout with a score")
        yield from chosen


def _present(*tables: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in tables if table is not None)


_MOST_EVIDENCE = 4
_SEVERITIES = ("critical", "error", "warning", "info")
"""Findings of one severity stay as the doctor sorted them."""


def make_problem(run: str, finding: Finding) -> Problem:
    return Problem(
        run,
        str(finding.severity),
        finding.id,
        finding.title,
        finding.onset,
        finding.cause,
        tuple(format_evidence(evidence) for evidence in finding.evidence[:_MOST_EVIDENCE]),
        tuple(line for fix in finding.fixes for line in _fix_lines(fix)),
        tuple(f"{later.title} [{later.id}]" for later in finding.followed_by),
    )


def _fix_lines(fix: Fix) -> Iterator[str]:
    """The fix, and what to type for it."""
    effect = f" ({fix.effect})" if fix.effect else ""
    changes = [
        f"$ {change.after}"
        if change.kind == "command"
        else f"{change.key}={format_config_value(published_value(change.key, change.after))}"
        for change in fix.changes
    ]
    yield f"{fix.title}{effect}" + (f": {', '.join(changes)}" if changes else "")


_NEWEST = 3
"""Steps that are tried: the newest may not be complete."""
_TITLES: Mapping[Split, str] = {"train": "training", "val": "validation"}


def choose_samples(run: Run, count: int, publisher: Publisher) -> Iterator[Sample]:
    """``count`` rollouts of the newest step with rewards, and as many of the newest validation.

    They are at equal distances in the order of their rewards, from the best to the worst.
    """
    store = RolloutStore(run.path)
    for split in _TITLES:
        rollouts = _newest(store, split)
        if rollouts is None:
            continue
        ranked = _ranked(rollouts)
        for place in _places(len(ranked), count):
            yield _sample(run.id, rollouts, place, ranked, publisher)


def _newest(store: RolloutStore, split: Split) -> StepRollouts | None:
    """The newest step with a scored rollout."""
    for step in reversed(store.steps(split)[-_NEWEST:]):
        rollouts = store.load(split, step)
        if _ranked(rollouts):
            return rollouts
    return None


def _ranked(rollouts: StepRollouts) -> list[tuple[float, Group, Rollout]]:
    """The scored rollouts from the highest to the lowest score; of equal ones as they were made."""
    scored = [
        (rollout.score, group, rollout)
        for group in rollouts.groups
        for rollout in group.rollouts
        if rollout.score is not None
    ]
    return sorted(scored, key=lambda entry: -entry[0])


def _places(size: int, count: int) -> list[int]:
    """Places at equal distances, both ends among them; the middle for a single one."""
    if count == 1 and size:
        return [(size - 1) // 2]
    wanted = min(size, count)
    return [round(number * (size - 1) / max(1, wanted - 1)) for number in range(wanted)]


def _sample(
    run: str,
    rollouts: StepRollouts,
    place: int,
    ranked: list[tuple[float, Group, Rollout]],
    publisher: Publisher,
) -> Sample:
    score, group, rollout = ranked[place]
    texts = {
        "prompt": group.prompt(),
        "response": rollout.text(),
        "reference": rollout.ground_truth(),
    }
    return Sample(
        run,
        rollouts.step,
        _TITLES[rollouts.split],
        _rank(place, len(ranked)),
        format_number(score),
        tuple(_facts(group, rollout)),
        tuple((name, publisher.excerpt(text)) for name, text in texts.items() if text),
    )


def _rank(place: int, size: int) -> str:
    if place == 0:
        return "best"
    if place == size - 1:
        return "worst"
    return "median" if place == round((size - 1) / 2) else f"{place + 1} of {size}"


def _facts(group: Group, rollout: Rollout) -> Iterator[tuple[str, str]]:
    yield "group", f"{group.question_id or group.id}, rollout {rollout.number}"
    yield "characters", f"{rollout.length:,}"
    if rollout.advantage is not None:
        yield "advantage", format_number(rollout.advantage)
    for name, value in (rollout.parts or {}).items():
        yield name, format_number(value)
    for name, scores in (("judge scores", rollout.judge), ("gold scores", rollout.gold)):
        if scores:
            yield name, ", ".join(format_number(score, 3) for score in scores)
