"""The tiny demo, which trains in minutes: questions, graded answers, gold rubrics, a model.

Everything follows from one seed and takes the path of real data: HealthBench-like raw files,
adapter, precompute, prepare_sft, prepare preset --only-cached, parquet.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import yaml

from engine.base import files, jsonl
from engine.base.errors import guarded
from engine.base.files import content_hash
from engine.base.quantities import format_count
from engine.data.adapters import get_adapter
from engine.data.precompute import PrecomputePlan, PrecomputeReport, precompute
from engine.data.prepare import PrepareOptions, prepare_preset
from engine.data.prepare_sft import SftOptions, prepare_sft
from engine.data.presets import load_presets
from engine.data.program import OutputDir, Seed, run_program
from engine.reward.judge.offline import OfflineKeywordJudge
from engine.run.host.programs import own_module

# Raise it when the same questions would give other files: another prompt, another judge.
VERSION = 1
ANSWERS_PER_QUESTION = 6
SFT_QUESTIONS = 300
HELD_OUT = 64
# SFT learns from rubrics that were mostly written in haste: right in form, weak in content.
SFT_CARE = (0.0, 0.0, 0.5, 1.0)
# The points that an answer makes, from all to none: scores 1, .8, .6, .4, .2 and 0.
_POINT_SETS = ((0, 1, 2, 3), (0, 1, 3), (0, 2), (1, 3), (2,), ())


class TellingPoint(NamedTuple):
    """What a gold rubric asks for, and the sentence of an answer that satisfies it."""

    criterion: str
    sentence: str


class Aspect(NamedTuple):
    """One kind of question about a condition, with its telling points by falling weight."""

    name: str
    questions: tuple[str, ...]
    points: tuple[TellingPoint, ...]


_TEXT = yaml.safe_load(Path(__file__).with_name("tiny_text.yaml").read_text(encoding="utf-8"))
ASPECTS = tuple(
    Aspect(name, tuple(questions), tuple(TellingPoint(*point) for point in points))
    for name, questions, points in (aspect.values() for aspect in _TEXT["aspects"])
)
WEIGHTS, CONDITIONS, ASKERS = _TEXT["weights"], _TEXT["conditions"], _TEXT["askers"]
CHATTER, GENERIC_CRITERIA = _TEXT["chatter"], _TEXT["generic_criteria"]


@dataclass(frozen=True)
class TinyPaths:
    """The paths of the world's files; the gold scores are with the other caches."""

    root: Path
    cache: Path
    questions: Path
    answers: Path
    sft: Path
    holdout: Path
    processed: Path
    presets: Path
    model: Path
    stamp: Path

    @classmethod
    def below(cls, out: Path) -> TinyPaths:
        return cls(
            root=out,
            cache=out.parent / "cache" / f"{out.name}_precompute.jsonl",
            questions=out / "questions.jsonl",
            answers=out / "meta_eval.jsonl",
            sft=out / "sft",
            holdout=out / "sft" / "holdout_ids.json",
            processed=out / "processed",
            presets=out / "presets.yaml",
            model=out / "model",
            stamp=out / "world.json",
        )


@dataclass(frozen=True)
class TinyQuestion:
    """A question with its gold rubric and, except those for SFT, its graded answers."""

    prompt_id: str
    text: str
    aspect: Aspect
    condition: str
    criteria: tuple[str, ...]
    answers: tuple[str, ...]


def make_questions(seed: int) -> list[TinyQuestion]:
    """Every condition, aspect and asker once; the first ``SFT_QUESTIONS`` have no answers."""
    chooser = random.Random(seed)
    combinations = [
        (condition, aspect, asker)
        for condition in CONDITIONS
        for aspect in ASPECTS
        for asker in ASKERS
    ]
    chooser.shuffle(combinations)
    return [
        _question(number, *combination, chooser) for number, combination in enumerate(combinations)
    ]


def _question(
    number: int, condition: str, aspect: Aspect, asker: str, chooser: random.Random
) -> TinyQuestion:
    question = chooser.choice(aspect.questions).format(condition)
    for_sft = number < SFT_QUESTIONS
    return TinyQuestion(
        prompt_id=f"tiny-{number:04d}",
        text=f"{asker} {question}".strip(),
        aspect=aspect,
        condition=condition,
        criteria=_criteria(aspect, chooser.choice(SFT_CARE) if for_sft else 1.0, chooser),
        answers=() if for_sft else tuple(_answers(condition, aspect, chooser)),
    )


def _criteria(aspect: Aspect, care: float, chooser: random.Random) -> tuple[str, ...]:
    """Return the specific criteria, each with probability ``care``, otherwise a generic one."""
    phrases = chooser.choices(GENERIC_CRITERIA, k=len(WEIGHTS))
    return tuple(
        point.criterion if chooser.random() < care else phrase
        for point, phrase in zip(aspect.points, phrases, strict=True)
    )


def _answers(condition: str, aspect: Aspect, chooser: random.Random) -> list[str]:
    texts = [_answer(condition, aspect, points, chooser) for points in _POINT_SETS]
    chooser.shuffle(texts)
    return texts


def _answer(condition: str, aspect: Aspect, points: Sequence[int], chooser: random.Random) -> str:
    """Return five sentences in random order: those of the points, and chatter."""
    chatter = chooser.sample(CHATTER, 5 - len(points))
    sentences = [aspect.points[index].sentence for index in points]
    sentences += [text.format(condition) for text in chatter]
    chooser.shuffle(sentences)
    return " ".join(sentences)


def question_record(question: TinyQuestion) -> dict[str, Any]:
    """One line of the questions file, in HealthBench's layout."""
    return {
        "prompt_id": question.prompt_id,
        "prompt": [{"role": "user", "content": question.text}],
        "rubrics": [
            {"criterion": f"{criterion}.", "points": weight, "tags": ["level:example"]}
            for criterion, weight in zip(question.criteria, WEIGHTS, strict=True)
        ],
        "category": question.aspect.name,
        "example_tags": [f"condition:{question.condition}"],
    }


def answer_records(question: TinyQuestion) -> Iterator[dict[str, Any]]:
    """One line per answer, in the layout of HealthBench's meta evaluation."""
    for index, answer in enumerate(question.answers):
        yield {
            "prompt_id": question.prompt_id,
            "completion_id": f"{question.prompt_id}-{index}",
            "completion": answer,
            "category": question.aspect.name,
        }


def build_tiny_world(paths: TinyPaths, seed: int = 0) -> list[str]:
    """Make the world unless it is there already, made from ``seed``; return what was made."""
    is_complete = all(path.is_file() for path in _products(paths))
    if is_complete and jsonl.read_json(paths.stamp) == _stamp(paths, seed):
        return [f"[tiny] up to date -> {paths.root}"]
    paths.root.mkdir(parents=True, exist_ok=True)
    paths.stamp.unlink(missing_ok=True)
    paths.cache.unlink(missing_ok=True)
    questions = make_questions(seed)
    lines = [
        _write_lines(paths.questions, [question_record(question) for question in questions]),
        _write_lines(paths.answers, [line for q in questions for line in answer_records(q)]),
        f"[precompute] {_precompute(paths).written} written -> {paths.cache}",
    ]
    options = SftOptions("tiny", paths.questions, paths.answers, "no_answers", HELD_OUT, seed)
    sft = prepare_sft(replace(options, output_dir=paths.sft))
    lines += (f"[sft] {remark}" for remark in sft.remarks)
    lines += _prepare(paths, seed)
    jsonl.write_json(paths.stamp, _stamp(paths, seed))
    return lines


def _precompute(paths: TinyPaths) -> PrecomputeReport:
    examples = get_adapter("tiny").load(paths.questions, paths.answers)
    answered = [example for example in examples if example.answers]
    plan = PrecomputePlan(num_evals=1, max_answers=ANSWERS_PER_QUESTION)
    return asyncio.run(precompute(answered, OfflineKeywordJudge(), paths.cache, plan))


def _prepare(paths: TinyPaths, seed: int) -> Iterator[str]:
    dataset = {
        "path": str(paths.questions),
        "meta_eval_path": str(paths.answers),
        "cache": str(paths.cache),
    }
    preset = {
        "description": "Questions about twelve conditions, made by the project itself.",
        "recommended_for": "trying everything without a GPU, a hub or an API key",
        "datasets": {"tiny": dataset},
        "prefix": "",
    }
    presets = {"active_preset": "tiny", "holdout": str(paths.holdout), "presets": {"tiny": preset}}
    files.write_atomic(paths.presets, yaml.safe_dump(presets, sort_keys=False))
    name, loaded = load_presets(paths.presets).get("tiny")
    # Excerpts would triple the prompt with words that SFT, which has none, never showed the model.
    options = PrepareOptions(
        paths.processed,
        seed,
        only_cached=True,
        use_contrastive=False,
        holdout=paths.holdout,
    )
    return prepare_preset(name, loaded, options).format_lines()


def _products(paths: TinyPaths) -> list[Path]:
    return [
        paths.questions,
        paths.answers,
        paths.cache,
        paths.sft / "train.jsonl",
        paths.holdout,
        paths.processed / "train.parquet",
        paths.processed / "val.parquet",
    ]


def _stamp(paths: TinyPaths, seed: int) -> dict[str, Any]:
    hashes = {str(path): content_hash(path) for path in _products(paths)}
    text = hashlib.sha256(repr(make_questions(seed)).encode()).hexdigest()
    return {"version": VERSION, "seed": seed, "text": text, "sha256": hashes}


def _write_lines(path: Path, records: Sequence[dict[str, Any]]) -> str:
    files.write_atomic(path, "".join(json.dumps(record) + "\n" for record in records))
    return f"[tiny] Wrote {format_count(len(records), 'line')} -> {path}"


def _model_up_to_date(paths: TinyPaths) -> bool:
    """Whether the model exists and is not older than the data of its tokenizer."""
    weights = paths.model / "model.safetensors"
    return weights.is_file() and weights.stat().st_mtime >= paths.stamp.stat().st_mtime


def build_tiny_model(paths: TinyPaths, seed: int) -> int:
    """Make the model, in a separate process, since data code does not import torch.

    Returns that process's exit code.
    """
    options = ("--world", str(paths.root), "--out", str(paths.model), "--seed", str(seed))
    return subprocess.run(own_module("engine.train.tiny_model", *options), check=False).returncode


@dataclass(frozen=True)
class _Options:
    seed: Seed = 0
    out: OutputDir = Path("data/tiny")
    no_model: Annotated[bool, "Data only (needs no torch)"] = False


def _run(options: _Options) -> int:
    paths = TinyPaths.below(options.out)
    print("\n".join(build_tiny_world(paths, options.seed)), flush=True)
    is_needed = not options.no_model and not _model_up_to_date(paths)
    return 0 if not is_needed or build_tiny_model(paths, options.seed) == 0 else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when everything is there, 1 when the model could not be made."""
    return run_program("engine.data.tiny_world", argv, _run)


if __name__ == "__main__":
    sys.exit(guarded(main))
