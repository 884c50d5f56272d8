"""Write the parquet files that GRPO trains on: ``preset``, ``single`` dataset, or ``curriculum``.

Held-out questions and rows without gold scores are removed first and data sets are mixed
afterwards, so that the proportions of a preset hold in the file.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from engine.base.errors import UsageError, guarded, tell
from engine.base.files import fingerprints
from engine.base.quantities import format_count
from engine.data.adapters import DomainType, Example, get_adapter
from engine.data.blocklist import RecordFilter
from engine.data.cache import read_cache
from engine.data.contract import FileFacts, Row, read_facts, write_rows
from engine.data.holdout import read_holdout, repeated_ids
from engine.data.presets import (
    DEFAULT_PRESETS,
    DatasetSpec,
    Preset,
    PresetFile,
    load_presets,
    mix,
)
from engine.data.program import Answers, Blocklist, Dataset, OutputDir, Seed, at_least, run_program
from engine.tasks.rubrics import (
    contrastive_enabled,
    contrastive_excerpts,
    gold_problem,
    rubric_messages,
)

DEFAULT_HOLDOUT = Path("data/sft/holdout_ids.json")
_PHASES = "0.8:0.2 0.5:0.5 0.2:0.8"


@dataclass(frozen=True)
class PrepareOptions:
    """Options for all files of one call."""

    output_dir: OutputDir = Path("data/processed")
    seed: Seed = 42
    total_items: Annotated[int | None, "Rows per training file (default: all)", at_least(1)] = None
    only_cached: Annotated[bool, "Leave out rows without gold scores"] = False
    use_contrastive: bool = True
    holdout: Path | None = None
    val_items: Annotated[int, "Maximum number of validation rows", at_least(1)] = 64
    blocklist: Blocklist = None
    presets: Annotated[Path, "Presets file"] = DEFAULT_PRESETS


@dataclass(frozen=True)
class PresetOptions(PrepareOptions):
    name: Annotated[str | None, "Name of the preset (default: the active one)"] = None
    is_list: Annotated[bool, "List the presets", "--list"] = False


@dataclass(frozen=True, kw_only=True)
class SingleOptions(PrepareOptions):
    dataset: Dataset
    path: Annotated[Path | None, "JSONL file (default: download from the hub)"] = None
    meta_eval_path: Answers = None
    cache: Annotated[Path | None, "Gold scores, written by precompute"] = None
    holdout: Annotated[Path | None, f"Held-out IDs (default: {DEFAULT_HOLDOUT} if there)"] = None


@dataclass(frozen=True, kw_only=True)
class CurriculumOptions(PrepareOptions):
    verif: Annotated[list[str], "Verifiable data sets as NAME:WEIGHT ..."]
    open: Annotated[list[str], "Open-ended data sets as NAME:WEIGHT ..."]
    phases: Annotated[list[str] | None, f"Shares VERIF:OPEN ... (default: {_PHASES})"] = None


@dataclass(frozen=True)
class Pool:
    """One dataset's usable rows. ``val`` are the held-out questions and never part of
    ``train``; ``held_out`` counts them, usable or not. ``sources``: hashes of files of the hub.
    ``remarks``: what was left out."""

    train: Sequence[Row]
    val: Sequence[Row]
    held_out: int
    sources: Mapping[str, str]
    remarks: Sequence[str]


@dataclass(frozen=True)
class PlannedFile:
    """The rows of a file, drawn before any file is written."""

    path: Path
    split: str
    rows: list[Row]

    @property
    def composition(self) -> dict[str, int]:
        """Rows per dataset."""
        return dict(sorted(Counter(str(row["data_source"]) for row in self.rows).items()))


@dataclass(frozen=True)
class PreparedFiles:
    """What was written for a preset. ``remarks``: what was left out."""

    preset: str
    remarks: Sequence[str]
    files: Sequence[PlannedFile]

    def format_lines(self) -> Iterator[str]:
        yield f"=== Preset: {self.preset} ==="
        yield from (f"  {remark}" for remark in self.remarks)
        for file in self.files:
            rows = len(file.rows)
            shares = (f"{source} {count / rows:.0%}" for source, count in file.composition.items())
            written = f"[{file.split}] Wrote {format_count(rows, 'row')} -> {file.path}"
            yield f"{written} ({', '.join(shares)})"


def prepare_preset(name: str, preset: Preset, options: PrepareOptions) -> PreparedFiles:
    """Write the preset's training file and validation file.

    A curriculum has a training file per phase, and one per group for ``grubrics.curriculum``.

    All files are composed before the first one is written, so unusable input writes none.
    """
    blocked = RecordFilter.read(options.blocklist) if options.blocklist else None
    pools = {
        dataset: load_pool(dataset, spec, options, blocked)
        for dataset, spec in preset.all_datasets().items()
    }
    remarks = [remark for pool in pools.values() for remark in pool.remarks]
    remarks += blocked.format_lines() if blocked else ()
    try:
        files = _training_files(preset, pools, options)
    except UsageError as error:
        if all(pool.train for pool in pools.values()):
            raise
        raise UsageError("; ".join((str(error), *remarks))) from error
    path = options.output_dir / f"{preset.prefix}val.parquet"
    val = [row for pool in pools.values() for row in pool.val]
    val.sort(key=lambda row: str(row["extra_info"]["question_id"]))
    if val:
        chosen = mix({"val": val}, {"val": 1.0}, min(options.val_items, len(val)), options.seed)
        files.append(PlannedFile(path, "val", chosen))
    for file in files:
        _note_repeats(file)
    if not val:
        _without_validation(path, options, any(pool.held_out for pool in pools.values()))
    hits = blocked.counts.hits if blocked else {}
    sources = _fingerprints(preset, pools, options)
    for file in files:
        _write(file, name, options, sources, hits)
    return PreparedFiles(name, remarks, files)


def phase_weights(preset: Preset, phase: tuple[float, float]) -> dict[str, float]:
    """Weight of each dataset in one curriculum phase: its group's share times its own."""
    return {
        dataset: share * spec.weight / (sum(member.weight for member in group.values()) or 1.0)
        for share, group in zip(phase, (preset.verifiable, preset.open), strict=True)
        for dataset, spec in group.items()
    }


def load_pool(
    dataset: str, spec: DatasetSpec, options: PrepareOptions, blocked: RecordFilter | None = None
) -> Pool:
    """The dataset's rows with cached gold, split by the holdout.

    Rows whose gold scores are all equal are left out: they reward no ranking. With
    ``only_cached`` rows without gold scores are left out too, and so are those that ``blocked``
    finds.
    """
    adapter, sources = get_adapter(dataset).pin(spec.path)
    loaded = adapter.load(spec.path, spec.meta_eval_path)
    cache = read_cache(spec.cache)
    for note in cache.notes(loaded):
        tell(f"note: {note}")
    examples = map(cache.with_gold, loaded)
    wanted = [e for e in examples if blocked is None or not blocked.blocks(*e.texts)]
    held_out = read_holdout(options.holdout)
    repeats = repeated_ids(loaded, held_out)
    train, val, left_out = list[Row](), list[Row](), 0
    usable, remarks = _usable(dataset, spec, wanted, options)
    for example in usable:
        if example.question_id in repeats:
            left_out += 1
            continue
        split, rows = ("val", val) if example.question_id in held_out else ("train", train)
        rows.append(to_row(example, dataset, adapter.domain_type, split, options.use_contrastive))
    if left_out:
        repeating = f"{format_count(left_out, 'row')} repeating a held-out question"
        remarks.append(f"{dataset}: left out {repeating} under another ID")
    held_out_count = sum(example.question_id in held_out for example in loaded)
    return Pool(train, val, held_out_count, sources, remarks)


def to_row(
    example: Example,
    source: str,
    domain: DomainType,
    split: str = "train",
    use_contrastive: bool = True,
) -> Row:
    """A row of the parquet file; ``index`` is set when the file is written."""
    excerpts = None
    if use_contrastive:
        excerpts = contrastive_excerpts(example.answers, example.gold_scores)
    kind = "verifiable" if domain == "verifiable" else "open"
    return {
        "data_source": source,
        "prompt": rubric_messages(example.question, example.context, excerpts),
        "reward_model": {"ground_truth": example.ground_truth, "style": f"rubric_for_{kind}"},
        "extra_info": {
            "split": split,
            "domain_type": domain,
            "question_id": example.question_id,
            "question": example.question,
            "golden_rubric": example.golden_rubric,
            "answers": list(example.answers),
            "gold_scores": list(example.gold_scores),
            "category": example.category,
            "subject": example.subject,
        },
    }


def _usable(
    dataset: str, spec: DatasetSpec, examples: list[Example], options: PrepareOptions
) -> tuple[list[Example], list[str]]:
    """The examples that can be trained on, and what was left out."""
    remarks = []
    with_gold = [e for e in examples if gold_problem(e.answers, e.gold_scores) is None]
    usable = with_gold if options.only_cached else examples
    bare = len(usable) - len(with_gold)
    if options.only_cached:
        removed = len(examples) - len(usable)
        remarks.append(
            f"[only-cached] {dataset}: Kept {len(usable)}/{len(examples)} rows "
            f"({removed} without precompute removed)"
        )
        if not usable:
            raise UsageError(
                f"No rows with precomputed data found for {dataset} in {spec.cache}. "
                "Run precompute first."
            )
    elif bare:
        missing = f" in {spec.cache}" if spec.cache else ""
        missing += ", which does not exist" if spec.cache and not spec.cache.is_file() else ""
        problem = f"{bare} of {len(usable)} rows have no gold scores{missing}"
        advice = "training refuses them; --only-cached leaves them out"
        tell(f"note: {dataset}: {problem}; {advice}")
    constant = {id(example) for example in with_gold if len(set(example.gold_scores)) == 1}
    if constant:
        row_count = format_count(len(constant), "row")
        remarks.append(f"{dataset}: left out {row_count} with constant gold scores")
    return [example for example in usable if id(example) not in constant], remarks


def group_paths(preset: Preset, folder: Path) -> tuple[Path, Path]:
    """The files of a curriculum's verifiable rows and of its open-ended ones."""
    names = (f"{preset.prefix}curriculum_{group}.parquet" for group in ("verifiable", "open"))
    verifiable, open_ended = (folder / name for name in names)
    return verifiable, open_ended


def _training_files(
    preset: Preset, pools: Mapping[str, Pool], options: PrepareOptions
) -> list[PlannedFile]:
    train = {dataset: pool.train for dataset, pool in pools.items()}
    if preset.type == "curriculum":
        return [*_curriculum_files(preset, train, options)]
    weights = {dataset: spec.weight for dataset, spec in preset.datasets.items()}
    rows = mix(train, weights, options.total_items, options.seed)
    return [PlannedFile(options.output_dir / f"{preset.prefix}train.parquet", "train", rows)]


def _curriculum_files(
    preset: Preset, train: Mapping[str, Sequence[Row]], options: PrepareOptions
) -> Iterator[PlannedFile]:
    """The rows of each phase, and those of each group alone, which ``grubrics.curriculum`` mixes
    in every step."""
    for number, phase in enumerate(preset.phases, start=1):
        path = options.output_dir / f"{preset.prefix}curriculum_phase{number}.parquet"
        weights, seed = phase_weights(preset, phase), options.seed + number
        yield PlannedFile(path, "train", mix(train, weights, options.total_items, seed))
    alone = ((1.0, 0.0), (0.0, 1.0))
    for path, group in zip(group_paths(preset, options.output_dir), alone, strict=True):
        rows = mix(train, phase_weights(preset, group), None, options.seed)
        yield PlannedFile(path, "train", rows)


def _without_validation(path: Path, options: PrepareOptions, is_known: bool) -> None:
    """Note why there is no validation file, and remove that of an earlier call.

    Its questions may be training data now.
    """
    if options.holdout is None:
        reason = "no hold-out list is given"
    elif not is_known:
        reason = f"the data sets contain no question of {options.holdout}"
    else:
        reason = f"no question of {options.holdout} has usable rows; run precompute first"
    tell(f"note: no validation file: {reason}")
    if path.is_file() and read_facts(path) is not None:
        path.unlink()
        tell(f"note: removed {path} of an earlier call")


def _note_repeats(file: PlannedFile) -> None:
    """Note how many rows of a scarce data set are repeated."""
    rows = Counter((row["data_source"], row["extra_info"]["question_id"]) for row in file.rows)
    for source in sorted({source for source, _ in rows}):
        counts = [count for (name, _), count in rows.items() if name == source]
        if (repeated := sum(counts) - len(counts)) > 0:
            share = f"{repeated} of {sum(counts)} {source} rows are repeats"
            note = f"note: {file.path.name}: {share}; {source} has {len(counts)} questions"
            tell(note)


def _fingerprints(
    preset: Preset, pools: Mapping[str, Pool], options: PrepareOptions
) -> dict[str, str]:
    """Content hashes of all that the files are made of, by path or address on the hub."""
    specs = preset.all_datasets().values()
    inputs = [path for spec in specs for path in (spec.path, spec.meta_eval_path, spec.cache)]
    sources = fingerprints([*inputs, options.holdout, options.blocklist])
    for pool in pools.values():
        sources |= pool.sources
    return sources


def _write(
    file: PlannedFile,
    name: str,
    options: PrepareOptions,
    sources: Mapping[str, str],
    blocked: Mapping[str, int],
) -> None:
    facts = FileFacts(
        preset=name,
        split=file.split,
        use_contrastive=options.use_contrastive,
        holdout=str(options.holdout) if options.holdout is not None else None,
        seed=options.seed,
        composition=file.composition,
        sources=sources,
        blocked=blocked,
    )
    write_rows(file.path, file.rows, facts)


def list_presets(presets: PresetFile) -> str:
    """The presets as text, the active one marked: sources, shares and cached gold scores."""
    blocks = []
    for name, preset in presets.presets.items():
        mark = "  <-- active" if name == presets.active_preset else ""
        about = preset.description, f"Recommended for: {preset.recommended_for}"
        lines = [f"{name}{mark}", *(f"  {line}" for line in (*about, *_composition(preset)))]
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _composition(preset: Preset) -> list[str]:
    """One line for each data set, with its share of its group; then the phases."""
    groups = {"": preset.datasets, "verifiable ": preset.verifiable, "open ": preset.open}
    lines = []
    for group, specs in groups.items():
        total = sum(spec.weight for spec in specs.values())
        for name, spec in specs.items():
            share = f"{spec.weight / total:.0%}" if total else "0%"
            source = f"from {spec.path}" if spec.path else "from the hub"
            missing = " (missing)" if spec.path and not spec.path.is_file() else ""
            lines.append(f"{group}{name} {share} {source}{missing}; {_cached(spec)}")
    if preset.phases:
        phases = ", ".join(f"{verifiable:.0%}/{open:.0%}" for verifiable, open in preset.phases)
        lines.append(f"phases, verifiable/open: {phases}")
    return lines


def _cached(spec: DatasetSpec) -> str:
    if spec.cache is None:
        return "no cache"
    count = len(read_cache(spec.cache).records)
    return f"{format_count(count, 'question')} with gold scores in {spec.cache}"


def preset(options: PresetOptions) -> None:
    """Write the files of a preset."""
    presets = load_presets(options.presets)
    if options.is_list:
        print(list_presets(presets))
        return
    name, chosen = presets.get(options.name)
    _print_prepared(name, chosen, options, presets.holdout)


def single(options: SingleOptions) -> None:
    """Write the files of one data set."""
    spec = DatasetSpec(
        path=options.path, meta_eval_path=options.meta_eval_path, cache=options.cache
    )
    chosen = Preset(datasets={options.dataset: spec}, prefix=f"{options.dataset}_")
    default = DEFAULT_HOLDOUT if DEFAULT_HOLDOUT.is_file() else None
    _print_prepared(options.dataset, chosen, options, options.holdout or default)


def curriculum(options: CurriculumOptions) -> None:
    """Write one file per curriculum phase."""
    presets = load_presets(options.presets)
    specs = {
        name: spec
        for preset in presets.presets.values()
        for name, spec in preset.all_datasets().items()
    }
    chosen = Preset(
        type="curriculum",
        verifiable=_weighted(options.verif, specs),
        open=_weighted(options.open, specs),
        phases=[_phase(text) for text in options.phases or _PHASES.split()],
    )
    _print_prepared("curriculum", chosen, options, presets.holdout)


def _print_prepared(
    name: str, preset: Preset, options: PrepareOptions, holdout: Path | None
) -> None:
    contrastive = contrastive_enabled(os.environ)
    options = replace(options, use_contrastive=contrastive, holdout=holdout)
    for line in prepare_preset(name, preset, options).format_lines():
        print(line)


def _weighted(texts: Sequence[str], specs: Mapping[str, DatasetSpec]) -> dict[str, DatasetSpec]:
    weighted = {}
    for text in texts:
        name, _, weight = text.partition(":")
        get_adapter(name)
        spec = specs.get(name, DatasetSpec())
        weighted[name] = spec.model_copy(update={"weight": _number(weight or "1", text)})
    return weighted


def _phase(text: str) -> tuple[float, float]:
    verifiable, separator, open_share = text.partition(":")
    if not separator:
        raise UsageError(f"--phases: '{text}' must be <verifiable>:<open>, e.g. 0.8:0.2")
    return _number(verifiable, text), _number(open_share, text)


def _number(value: str, text: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"'{value}' in '{text}' is not a number") from None
    if not 0 <= number < math.inf:
        raise UsageError(f"'{value}' in '{text}' must be finite and at least 0")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when written or listed; UsageError for unusable input."""
    epilog = "USE_CONTRASTIVE=0 leaves the answer excerpts out of the prompts."
    return run_program("engine.data.prepare", argv, preset, single, curriculum, epilog=epilog)


if __name__ == "__main__":
    sys.exit(guarded(main))
