"""Write the SFT examples (question -> gold rubric) and the list of held-out questions.

Only questions with answers can get a GRPO reward. The default subset ``no_answers`` therefore
teaches the format on questions that neither GRPO nor evaluation uses.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from engine.base import files
from engine.base.errors import UsageError, guarded
from engine.base.text import count_of
from engine.data.adapters import Example, get_adapter
from engine.data.adapters.rubric_graded import read_completions
from engine.data.blocklist import RecordFilter
from engine.data.holdout import repeated_ids, write_holdout
from engine.rubrics import has_wanted_sum, rubric_messages, scaled_to_sum

_OSS_EVAL = Path("data/healthbench/oss_eval.jsonl")

Points = Literal["scaled", "as_given"]
Subset = Literal["all", "no_answers", "with_answers"]


@dataclass(frozen=True)
class SftSplit:
    """Disjoint parts of a data set: the examples of SFT, and the held-out IDs.

    ``repeated_ids`` are of examples with the text of a held-out question. ``sources``: hashes of
    the files of the hub, by address.
    """

    train: tuple[Example, ...]
    holdout_ids: tuple[str, ...]
    with_answers: int
    no_answers: int
    repeated_ids: frozenset[str]
    sources: Mapping[str, str] = field(default_factory=dict)


def split_for_sft(
    examples: Sequence[Example],
    answered: frozenset[str],
    subset: Subset,
    holdout_size: int,
    seed: int,
) -> SftSplit:
    """Draw the held-out questions from those with answers, then the SFT subset from the rest.

    If fewer than ``holdout_size`` questions have answers, none is held out.
    """
    chooser = random.Random(seed)
    answered_examples = [example for example in examples if example.question_id in answered]
    unanswered = [example for example in examples if example.question_id not in answered]
    chooser.shuffle(answered_examples)
    size = holdout_size if len(answered_examples) >= holdout_size else 0
    pools = {
        "all": answered_examples[size:] + unanswered,
        "no_answers": unanswered,
        "with_answers": answered_examples[size:],
    }
    train = pools[subset]
    chooser.shuffle(train)
    holdout_ids = tuple(example.question_id for example in answered_examples[:size])
    repeats = repeated_ids(examples, holdout_ids)
    return SftSplit(tuple(train), holdout_ids, len(answered_examples), len(unanswered), repeats)


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


def with_wanted_sums(examples: Sequence[Example]) -> tuple[Example, ...]:
    """The examples with their points scaled to the sum that the prompt asks for.

    Those whose points sum to 0 or less are left out.
    """
    return tuple(
        replace(example, golden_rubric=text)
        for example in examples
        if (text := scaled_to_sum(example.golden_rubric)) is not None
    )


def prepare_sft(
    dataset: str,
    oss_eval: Path | None,
    meta_eval: Path | None,
    output_dir: Path,
    subset: Subset = "no_answers",
    holdout_size: int = 500,
    seed: int = 42,
    points: Points = "scaled",
    blocklist: Path | None = None,
) -> SftSplit:
    """Write ``train.jsonl`` and ``holdout_ids.json`` into ``output_dir``.

    Without ``oss_eval``, the questions are those of the hub, and their commit is recorded.
    Questions that contain a text of ``blocklist``, in a rubric or answer too, are neither held out
    nor taught.
    """
    blocked = RecordFilter.read(blocklist) if blocklist else None
    split = _load_split(dataset, oss_eval, meta_eval, subset, holdout_size, seed, blocked)
    split = _teachable(split)
    if points == "scaled":
        split = _scaled(split)
    if not split.train:
        raise UsageError(f"{dataset}: subset '{subset}' has no questions (see --stats)")
    output_dir.mkdir(parents=True, exist_ok=True)
    train, holdout = output_dir / "train.jsonl", output_dir / "holdout_ids.json"
    records = (sft_record(example) for example in split.train)
    lines = (f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    files.write_atomic(train, lines)
    more: dict[str, Any] = {"blocked": blocked.counts.to_json()} if blocked else {}
    if split.sources:
        more["sources"] = split.sources
    write_holdout(holdout, split.holdout_ids, seed, subset, more)
    print(f"[sft] Wrote {count_of(len(split.train), 'row')} -> {train}")
    print(f"[sft] Wrote {count_of(len(split.holdout_ids), 'held-out ID')} -> {holdout}")
    return split


def _teachable(split: SftSplit) -> SftSplit:
    """Leave out questions that are held out under another ID, and those without a rubric.

    SFT would learn an empty reply from the latter.
    """
    new = [example for example in split.train if example.question_id not in split.repeated_ids]
    train = tuple(example for example in new if example.golden_rubric.strip())
    if repeats := len(split.train) - len(new):
        questions = count_of(repeats, "question")
        print(f"[sft] Left out {questions} repeating a held-out one under another ID")
    if bare := len(new) - len(train):
        print(f"[sft] Left out {count_of(bare, 'question')} without a rubric")
    return replace(split, train=train)


def _scaled(split: SftSplit) -> SftSplit:
    train = with_wanted_sums(split.train)
    fitting = sum(has_wanted_sum(example.golden_rubric) for example in split.train)
    left_out = len(split.train) - len(train)
    if changed := len(train) - fitting:
        rubrics = count_of(changed, "rubric")
        print(f"[sft] Scaled the points of {rubrics} to a sum of 10, as prompts ask")
    if left_out:
        hint = "--points as_given keeps them"
        rubrics = count_of(left_out, "rubric")
        print(f"[sft] Left out {rubrics} whose points sum to 0 or less ({hint})")
    return replace(split, train=train)


def _load_split(
    dataset: str,
    oss_eval: Path | None,
    meta_eval: Path | None,
    subset: Subset,
    holdout_size: int,
    seed: int,
    blocked: RecordFilter | None = None,
) -> SftSplit:
    if holdout_size < 0:
        raise UsageError(f"--holdout_size {holdout_size} must be at least 0")
    if meta_eval is not None and not meta_eval.is_file():
        print(f"warning: {meta_eval} does not exist, so no question has answers", file=sys.stderr)
        meta_eval = None
    adapter, sources = get_adapter(dataset).pin(oss_eval)
    examples = adapter.load(oss_eval, None)
    if blocked is not None:
        examples = [example for example in examples if not blocked.blocks(*example.texts)]
        for line in blocked.format_lines():
            print(f"[sft] {line[0].upper()}{line[1:]}")
    answered = frozenset(read_completions(meta_eval, dataset))
    split = split_for_sft(examples, answered, subset, holdout_size, seed)
    if not split.holdout_ids and holdout_size:
        print(
            f"warning: {split.with_answers} questions with answers, fewer than "
            f"--holdout_size {holdout_size}: none is held out, and GRPO gets no validation file",
            file=sys.stderr,
        )
    return replace(split, sources=sources)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when written or counted; UsageError for unusable input."""
    args = _parser().parse_args(argv)
    oss_eval = args.oss_eval_path or (_OSS_EVAL if _OSS_EVAL.is_file() else None)
    source = (args.dataset, oss_eval, args.meta_eval_path)
    draw = (args.subset, args.holdout_size, args.seed)
    if not args.stats:
        prepare_sft(*source, args.output_dir, *draw, args.points, args.blocklist)
        return 0
    blocked = RecordFilter.read(args.blocklist) if args.blocklist else None
    split = _load_split(*source, *draw, blocked)
    lengths = sorted(len(example.golden_rubric) for example in split.train) or [0]
    print(f"with answers: {split.with_answers}, without: {split.no_answers}")
    print(f"held out: {len(split.holdout_ids)}, SFT rows: {len(split.train)}")
    print(f"gold rubric characters: median {lengths[len(lengths) // 2]}, longest {lengths[-1]}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="engine.data.prepare_sft", description=__doc__)
    parser.add_argument("--dataset", default="healthbench")
    parser.add_argument(
        "--oss_eval_path",
        type=Path,
        help=f"questions (default: {_OSS_EVAL} if it exists, else download from the hub)",
    )
    parser.add_argument(
        "--meta_eval_path", type=Path, default=Path("data/healthbench/oss_meta_eval.jsonl")
    )
    parser.add_argument("--output_dir", type=Path, default=Path("data/sft"))
    parser.add_argument(
        "--subset", choices=["all", "no_answers", "with_answers"], default="no_answers"
    )
    parser.add_argument(
        "--points",
        choices=["scaled", "as_given"],
        default="scaled",
        help="scale each rubric's points to a sum of 10, or keep them (default: scaled)",
    )
    parser.add_argument("--holdout_size", type=int, default=500)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument(
        "--blocklist",
        type=Path,
        metavar="FILE",
        help="leave out questions that contain a text of FILE, one a line, in any case, also in "
        "their rubric or answers",
    )
    parser.add_argument("--stats", action="store_true", help="print the sizes and write nothing")
    return parser


if __name__ == "__main__":
    sys.exit(guarded(main))
