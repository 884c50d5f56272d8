"""Write the SFT examples (question -> gold rubric) and the list of held-out questions.

Only questions with answers can get a GRPO reward. The default subset ``no_answers`` therefore
teaches the format on questions that neither GRPO nor evaluation uses.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from engine.base import files
from engine.base.errors import UsageError, guarded, tell
from engine.base.quantities import format_count
from engine.base.typed import to_json
from engine.data.adapters import Example, get_adapter
from engine.data.adapters.rubric_graded import read_completions
from engine.data.blocklist import RecordFilter
from engine.data.holdout import repeated_ids, write_holdout
from engine.data.program import Answers, Blocklist, Dataset, OutputDir, Seed, run_program
from engine.tasks.rubrics import has_wanted_sum, rubric_messages, scaled_to_sum

_OSS_EVAL = Path("data/healthbench/oss_eval.jsonl")
_QUESTIONS = f"Questions (default: {_OSS_EVAL} if it exists, else those of the hub)"

Points = Literal["scaled", "as_given"]
Subset = Literal["all", "no_answers", "with_answers"]


@dataclass(frozen=True)
class SftOptions:
    """Without ``oss_eval``, the questions are those of the hub. Questions with a text of
    ``blocklist``, in a rubric or answer too, are neither held out nor taught."""

    dataset: Dataset = "healthbench"
    oss_eval: Annotated[Path | None, _QUESTIONS, "--oss_eval_path"] = None
    meta_eval: Answers = Path("data/healthbench/oss_meta_eval.jsonl")
    subset: Annotated[Subset, "Questions to teach"] = "no_answers"
    holdout_size: Annotated[int, "Questions with answers to hold out"] = 500
    seed: Seed = 42
    points: Annotated[Points, "Scale each rubric's points to a sum of 10, or keep them"] = "scaled"
    blocklist: Blocklist = None
    output_dir: OutputDir = Path("data/sft")
    stats: Annotated[bool, "Print the sizes and write nothing"] = False


@dataclass(frozen=True)
class SftSplit:
    """Disjoint parts of a data set: the examples of SFT, and the held-out IDs.

    ``repeated_ids`` are of examples with the text of a held-out question. ``sources``: hashes of
    the files of the hub, by address. ``blocked``: what a block list left out. ``remarks``: what
    was left out, changed and written.
    """

    train: tuple[Example, ...]
    holdout_ids: tuple[str, ...]
    with_answers: int
    no_answers: int
    repeated_ids: frozenset[str]
    sources: Mapping[str, str]
    blocked: RecordFilter | None
    remarks: tuple[str, ...]


def sft_record(example: Example) -> dict[str, Any]:
    """One training line: the GRPO prompt without excerpts, and the gold rubric as the reply.

    The prompt asks for points that sum to 10; ``with_wanted_sums`` scales them.
    """
    reply = {"role": "assistant", "content": example.golden_rubric}
    return {
        "prompt_id": example.question_id,
        "messages": [*rubric_messages(example.question, example.context), reply],
        "category": example.category,
    }


def prepare_sft(options: SftOptions) -> SftSplit:
    """Write ``train.jsonl`` and ``holdout_ids.json`` into ``output_dir``."""
    split = _teachable(_load_split(options))
    if options.points == "scaled":
        split = _scaled(split)
    if not split.train:
        problem = f"{options.dataset}: subset '{options.subset}' has no questions (see --stats)"
        raise UsageError("; ".join((problem, *split.remarks)))
    options.output_dir.mkdir(parents=True, exist_ok=True)
    train, holdout = (options.output_dir / name for name in ("train.jsonl", "holdout_ids.json"))
    records = (sft_record(example) for example in split.train)
    lines = (f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    files.write_atomic(train, lines)
    more: dict[str, Any] = {"blocked": to_json(split.blocked.counts)} if split.blocked else {}
    if split.sources:
        more["sources"] = split.sources
    write_holdout(holdout, split.holdout_ids, options.seed, options.subset, more)
    rows, held_out = len(split.train), len(split.holdout_ids)
    written = f"Wrote {format_count(rows, 'row')} -> {train}"
    also = f"Wrote {format_count(held_out, 'held-out ID')} -> {holdout}"
    return replace(split, remarks=(*split.remarks, written, also))


def _teachable(split: SftSplit) -> SftSplit:
    """Leave out questions that are held out under another ID, and those without a rubric.

    SFT would learn an empty reply from the latter.
    """
    new = [example for example in split.train if example.question_id not in split.repeated_ids]
    train = tuple(example for example in new if example.golden_rubric.strip())
    remarks = []
    if repeats := len(split.train) - len(new):
        questions = format_count(repeats, "question")
        remarks.append(f"Left out {questions} repeating a held-out one under another ID")
    if bare := len(new) - len(train):
        remarks.append(f"Left out {format_count(bare, 'question')} without a rubric")
    return replace(split, train=train, remarks=(*split.remarks, *remarks))


def _scaled(split: SftSplit) -> SftSplit:
    """The examples with their points scaled to the sum that the prompt asks for.

    Those whose points sum to 0 or less are left out.
    """
    train = tuple(
        replace(example, golden_rubric=text)
        for example in split.train
        if (text := scaled_to_sum(example.golden_rubric)) is not None
    )
    fitting = sum(has_wanted_sum(example.golden_rubric) for example in split.train)
    remarks = []
    if changed := len(train) - fitting:
        rubrics = format_count(changed, "rubric")
        remarks.append(f"Scaled the points of {rubrics} to a sum of 10, as prompts ask")
    if left_out := len(split.train) - len(train):
        hint = "--points as_given keeps them"
        rubrics = format_count(left_out, "rubric")
        remarks.append(f"Left out {rubrics} whose points sum to 0 or less ({hint})")
    return replace(split, train=train, remarks=(*split.remarks, *remarks))


def _load_split(options: SftOptions) -> SftSplit:
    """Draw the held-out questions from those with answers, then the SFT subset from the rest.

    If fewer than ``holdout_size`` questions have answers, none is held out.
    """
    blocked = RecordFilter.read(options.blocklist) if options.blocklist else None
    if options.holdout_size < 0:
        raise UsageError(f"--holdout_size {options.holdout_size} must be at least 0")
    meta_eval = options.meta_eval
    if meta_eval is not None and not meta_eval.is_file():
        tell(f"warning: {meta_eval} does not exist, so no question has answers")
        meta_eval = None
    adapter, sources = get_adapter(options.dataset).pin(options.oss_eval)
    examples = adapter.load(options.oss_eval, None)
    if blocked is not None:
        examples = [example for example in examples if not blocked.blocks(*example.texts)]
    with_answers = read_completions(meta_eval, options.dataset).keys()
    chooser = random.Random(options.seed)
    answered = [example for example in examples if example.question_id in with_answers]
    unanswered = [example for example in examples if example.question_id not in with_answers]
    chooser.shuffle(answered)
    size = options.holdout_size if len(answered) >= options.holdout_size else 0
    if not size and options.holdout_size:
        tell(
            f"warning: {len(answered)} questions with answers, fewer than "
            f"--holdout_size {options.holdout_size}: none is held out, and GRPO gets no "
            "validation file"
        )
    train = {
        "all": answered[size:] + unanswered,
        "no_answers": unanswered,
        "with_answers": answered[size:],
    }[options.subset]
    chooser.shuffle(train)
    held_out = tuple(example.question_id for example in answered[:size])
    return SftSplit(
        tuple(train),
        held_out,
        len(answered),
        len(unanswered),
        repeated_ids(examples, held_out),
        sources,
        blocked,
        tuple(f"{line[0].upper()}{line[1:]}" for line in blocked.format_lines()) if blocked else (),
    )


def _run(options: SftOptions) -> None:
    if options.oss_eval is None and _OSS_EVAL.is_file():
        options = replace(options, oss_eval=_OSS_EVAL)
    split = _load_split(options) if options.stats else prepare_sft(options)
    for remark in split.remarks:
        print(f"[sft] {remark}")
    if options.stats:
        lengths = sorted(len(example.golden_rubric) for example in split.train) or [0]
        print(f"with answers: {split.with_answers}, without: {split.no_answers}")
        print(f"held out: {len(split.holdout_ids)}, SFT rows: {len(split.train)}")
        print(f"gold rubric characters: median {lengths[len(lengths) // 2]}, longest {lengths[-1]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when written or counted; UsageError for unusable input."""
    return run_program("engine.data.prepare_sft", argv, _run)


if __name__ == "__main__":
    sys.exit(guarded(main))
