"""Run an evaluation: generate the answers that are missing, score them, and summarize."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from engine.base import jsonl, typed
from engine.base.errors import UsageError
from engine.base.follow import Tail, last_lines
from engine.config.compose import verl_config
from engine.config.load import Config
from engine.config.scoring import calls_tools, make_scorer, scores_all_turns
from engine.measure.baselines import baseline_text, require_same_setup, write_answers
from engine.measure.folder import (
    LOSS,
    AnswerRow,
    EvaluationDir,
    JudgeUse,
    Key,
    ScoreRow,
    TargetDir,
    find_grading,
    find_writing,
    locked,
)
from engine.measure.items import Item
from engine.measure.measures import measure
from engine.measure.setup import SamplingSettings, Setup
from engine.measure.summary import (
    Result,
    TargetComparison,
    compare_targets,
    measure_targets,
    samples_of,
)
from engine.measure.targets import TEXTS, Target, leased
from engine.reward.scorer import Rollout, ScoredRollout, Scorer
from engine.run.host.programs import own_module

BATCH = 32
LOG = "generate.log"
_POLL_S = 0.1
_OF_TOOLS = ("tool_selection", "tools_kwargs")
"""What verl reads about the tools of a row in its ``extra_info``."""

Job = dict[str, Any]
"""Answers to generate, of a target or of all: the JSON that ``engine.train.evaluate`` reads."""


class GenerationError(UsageError):
    """Some answers could not be generated."""


@dataclass(frozen=True)
class Progress:
    """``answers`` of ``total`` are there."""

    total: int
    answers: int
    scored: int | None = None
    """How many of them have a score; None where none is given."""
    target: str = ""
    """The first target that lacks answers; empty if none does."""
    is_last: bool = False
    """Whether no report follows."""


@dataclass(frozen=True)
class Evaluation:
    """What to evaluate, on what, and where. ``config`` scores the answers."""

    folder: EvaluationDir
    setup: Setup
    items: Sequence[Item]
    targets: Sequence[Target]
    config: Config
    niceness: int = 0
    """How far generating gives way to other programs, 0 to 19."""

    @property
    def distinct(self) -> list[Target]:
        """One target for each set of weights: those with the same share a folder and answers.

        Targets of other evaluations are left out: nothing is added to them.
        """
        own = [target for target in self.targets if target.form != "evaluation"]
        return list({target.sha256: target for target in own}.values())

    @property
    def total(self) -> int:
        samples = (samples_of(target, self.setup.samples) for target in self.distinct)
        return sum(samples) * len(self.items)

    @property
    def writing(self) -> JudgeUse | None:
        """What the answers of the baseline ``judge`` took; None if it is no target."""
        target = next((target for target in self.targets if target.form == "judge"), None)
        if target is None:
            return None
        return find_writing(self.folder.find(target), self.config.section("judge"))

    @property
    def grading(self) -> JudgeUse | None:
        """What the scores took; None if no judge gives them."""
        if "judge" not in self.setup.scoring:
            return None
        folders = map(self.folder.find, self.distinct)
        return find_grading(folders, self.config.section("judge"))

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to generate or to score."""
        return not any(
            self.missing(target, folder) or _unscored_keys(folder)
            for target in self.distinct
            for folder in [self.folder.find(target)]
        )

    def missing(self, target: Target, folder: TargetDir) -> list[tuple[Item, int]]:
        """The answers that the target does not have yet, and calls of the judge that failed."""
        known = {
            key
            for key, row in folder.read_answers().items()
            if row.answer is not None or target.form != "judge"
        }
        return [
            (item, sample)
            for item in self.items
            for sample in range(samples_of(target, self.setup.samples))
            if (item.uid, sample) not in known
        ]


def evaluate(
    evaluation: Evaluation,
    env: Mapping[str, str],
    report: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Add what is missing to the folder.

    ``env`` holds the judge's credentials. UsageError if another process works in the folder, and if
    the answers cannot be scored. GenerationError if a model cannot be loaded or fails; the other
    targets are complete then.
    """
    for target in evaluation.targets:
        _require_comparable(target, evaluation)
    backend = _common_backend(evaluation)
    evaluation.folder.open(evaluation.setup)
    if evaluation.is_complete:  # Its table can be shown where nothing can be written.
        return
    with locked(evaluation.folder.path) as lock:
        folders = {target.name: evaluation.folder.add(target) for target in evaluation.distinct}
        for target in evaluation.distinct:
            if target.form in TEXTS:
                _write_texts(evaluation, target, folders[target.name])
        with ExitStack() as leases:
            jobs = [
                _job(target, folders[target.name], missing, leases)
                for target in evaluation.distinct
                if target.form not in (*TEXTS, "judge")
                if (missing := evaluation.missing(target, folders[target.name]))
            ]
            generation = {**_generation(evaluation), "backend": backend, "targets": jobs}
            asyncio.run(_run(evaluation, folders, generation, env, report, lock))


def summarize(
    evaluation: Evaluation, baselines: Sequence[str]
) -> tuple[list[Result], list[TargetComparison]]:
    """The results of every target, and the comparisons of the others with each baseline."""
    targets = [(target, evaluation.folder.find(target)) for target in evaluation.targets]
    rows, metrics, results = measure_targets(
        targets, evaluation.setup.scoring, evaluation.setup.samples
    )
    by_name = {target.name: target for target in rows}
    others = [target for target in rows if target.name not in baselines]
    return results, compare_targets([by_name[name] for name in baselines], others, metrics)


def _require_comparable(target: Target, evaluation: Evaluation) -> None:
    """UsageError for a target that cannot be measured on these items."""
    if target.form == "evaluation":
        require_same_setup(target, evaluation.setup, evaluation.items)
    elif evaluation.setup.sampling is None and target.form in (*TEXTS, "judge"):
        raise UsageError(f"baseline '{target.name}' is no model with weights, so it has no loss")


def _common_backend(evaluation: Evaluation) -> str | None:
    """What generated the answers that are there; None before the first. UsageError for two: their
    numerics differ, and so would the models seem to."""
    known: dict[str, str] = {}
    for target in evaluation.targets:
        for row in evaluation.folder.find(target).read_answers().values():
            if row.backend is not None:
                known.setdefault(row.backend, target.name)
    if len(known) > 1:
        (one, its), (other, theirs), *_ = known.items()
        raise UsageError(
            f"{theirs}: was generated by {other}, and {its} by {one}; compare what one generated. "
            "Another --seed evaluates all of them again"
        )
    return next(iter(known), None)


async def _run(
    evaluation: Evaluation,
    folders: Mapping[str, TargetDir],
    generation: Job,
    env: Mapping[str, str],
    report: Callable[[Progress], None],
    lock: int,
) -> None:
    queue = _Unscored(folders)
    wanted = {
        target.name: samples_of(target, evaluation.setup.samples) * len(evaluation.items)
        for target in evaluation.distinct
    }

    def tell(is_last: bool = False) -> None:
        scored = None if evaluation.setup.sampling is None else queue.scored
        target = queue.first_below(wanted)
        report(Progress(evaluation.total, queue.answered, scored, target, is_last))

    # Missing credentials show before a model is loaded.
    is_generated = bool(generation["targets"])
    is_scored = is_generated and evaluation.setup.sampling is not None
    scorer: Scorer | None = make_scorer(evaluation.config, env) if is_scored else None
    generator = _start_generator(evaluation, generation, lock) if is_generated else None
    try:
        # The judge's model first writes and then grades, so that its limit of calls holds.
        await _ask_judge(evaluation, folders, env, report)
        while True:
            running = generator is not None and generator.poll() is None
            answers = queue.poll()
            if answers:
                scorer = scorer or make_scorer(evaluation.config, env)
                await _score(scorer, evaluation.items, queue, answers, tell)
            is_last = not running and not answers
            tell(is_last)
            if is_last:
                break
            await asyncio.sleep(0 if answers else _POLL_S)
    finally:
        if generator is not None and generator.poll() is None:
            generator.terminate()
            generator.wait()
        if scorer is not None:
            await scorer.aclose()
    if generator is not None and generator.returncode != 0:
        raise GenerationError(f"generating failed: {_why_failed(evaluation, generator.returncode)}")


async def _ask_judge(
    evaluation: Evaluation,
    folders: Mapping[str, TargetDir],
    env: Mapping[str, str],
    report: Callable[[Progress], None],
) -> None:
    """Write the answers that the baseline ``judge`` lacks."""
    for target in evaluation.distinct:
        missing = evaluation.missing(target, folders[target.name])
        if target.form == "judge" and missing:
            numbers = iter(range(1, len(missing) + 1))

            def done(numbers: Iterator[int] = numbers, name: str = target.name) -> None:
                report(Progress(evaluation.total, next(numbers), target=name))

            await write_answers(evaluation.config, env, folders[target.name], missing, done)


class _Unscored:
    """The answers without a score, each once, as they are written."""

    def __init__(self, folders: Mapping[str, TargetDir]) -> None:
        self._scored = {name: _scored_keys(folder) for name, folder in folders.items()}
        self.scored = sum(map(len, self._scored.values()))
        """Answers with a score, and those that could not be scored."""
        self._folders = dict(folders)
        self._tails = {name: Tail(folder.answers) for name, folder in folders.items()}
        self._seen = {name: set[Key]() for name in folders}

    @property
    def answered(self) -> int:
        return sum(map(len, self._seen.values()))

    def first_below(self, wanted: Mapping[str, int]) -> str:
        """The first target with fewer answers than it is to have; empty if none."""
        return next((name for name, seen in self._seen.items() if len(seen) < wanted[name]), "")

    def poll(self) -> list[tuple[TargetDir, AnswerRow]]:
        """The answers that came since the last poll and have no score."""
        found = []
        for name, tail in self._tails.items():
            for answer in self._new(name, tail):
                if answer.answer is not None and answer.key not in self._scored[name]:
                    self._scored[name].add(answer.key)
                    found.append((self._folders[name], answer))
        return found

    def _new(self, name: str, tail: Tail) -> list[AnswerRow]:
        rows = (typed.decode_record(line, AnswerRow) for line in tail.lines())
        answers = [row for row in rows if row is not None]
        self._seen[name].update(answer.key for answer in answers)
        return answers


def _unscored_keys(folder: TargetDir) -> set[Key]:
    answered = {key for key, row in folder.read_answers().items() if row.answer is not None}
    return answered - _scored_keys(folder)


def _scored_keys(folder: TargetDir) -> set[Key]:
    return {key for key, score in folder.read_scores().items() if score.is_scored}


async def _score(
    scorer: Scorer,
    items: Sequence[Item],
    queue: _Unscored,
    answers: Sequence[tuple[TargetDir, AnswerRow]],
    tell: Callable[[], None],
) -> None:
    """Append a line per answer as soon as it is scored, and ``tell`` so."""
    rows = {item.uid: item.row for item in items}
    known = [(folder, answer) for folder, answer in answers if answer.uid in rows]
    rollouts = [Rollout.of_row(answer.answer or "", rows[answer.uid]) for _, answer in known]

    def write(index: int, scored: ScoredRollout) -> None:
        folder, answer = known[index]
        record = scored.record
        row = ScoreRow(
            answer.uid,
            answer.sample,
            record.reward,
            measure(scored, answer.answer or ""),
            None if record.error is None else f"{record.error.kind}: {record.error.message}",
            record.attempts,
            record.tokens.input if record.tokens else 0,
            record.tokens.output if record.tokens else 0,
        )
        jsonl.append(folder.scores, typed.to_json(row))
        queue.scored += 1
        tell()

    await scorer.score_all(rollouts, write)


def _write_texts(evaluation: Evaluation, target: Target, folder: TargetDir) -> None:
    seed = evaluation.setup.sampling.seed if evaluation.setup.sampling else 0
    for item, sample in evaluation.missing(target, folder):
        text = baseline_text(target, item, seed)
        error = None if text is not None else "the data file has no golden rubric for this item"
        answer = AnswerRow(item.uid, sample, item.sha256, item.prompt_sha256, text, 0, True, error)
        jsonl.append(folder.answers, typed.to_json(answer))


def _job(
    target: Target, folder: TargetDir, missing: Sequence[tuple[Item, int]], leases: ExitStack
) -> Job:
    """What the generator has to answer for one target."""
    return {
        "name": target.name,
        "form": target.form,
        "source": leases.enter_context(leased(target, folder.path)),
        "answers": str(folder.answers.absolute()),
        "requests": [_request(item, sample) for item, sample in missing],
    }


def _start_generator(evaluation: Evaluation, generation: Job, lock: int) -> subprocess.Popen[bytes]:
    """The process that writes the missing answers.

    It shares the lock: if this process is killed, the evaluation stays locked until the generator
    has written its last batch.
    """
    with (evaluation.folder.path / LOG).open("ab") as log:
        process = subprocess.Popen(
            own_module("engine.train.evaluate"),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(json.dumps(generation).encode())
    return process


def _request(item: Item, sample: int) -> dict[str, Any]:
    row = {
        "uid": item.uid,
        "sample": sample,
        "item_sha256": item.sha256,
        "prompt_sha256": item.prompt_sha256,
    }
    extra = item.row.get("extra_info") or {}
    of_tools = {key: extra[key] for key in _OF_TOOLS if extra.get(key)}
    return {"row": row, "messages": list(item.messages), "extra_info": of_tools}


def _generation(evaluation: Evaluation) -> dict[str, Any]:
    """How the generator works, for all targets."""
    config, setup = evaluation.config, evaluation.setup
    on_cpu = config.get("grubrics.device") == "cpu"
    machine = {
        "parent": os.getpid(),
        "device": "cpu" if on_cpu else "cuda",
        "dtype": "float32" if on_cpu else "bfloat16",
        "batch": BATCH,
        "threads": None,
        "niceness": evaluation.niceness,
        "template_key": config.kind.template_key,
    }
    if setup.sampling is None:
        loss = setup.scoring[LOSS]
        return {**machine, "loss": loss, "chat_template": loss["chat_template"]}
    vllm = None if on_cpu else _vllm(config)
    return {**machine, **_sampling(setup.sampling), "vllm": vllm, "tools": _tools(config)}


def _tools(config: Config) -> dict[str, Any] | None:
    """What the agent loop needs to call the config's tools; None for a config without tools."""
    if not calls_tools(config):
        return None
    composed = OmegaConf.create(verl_config(config, Path("attempt_1")))
    return {
        "config": OmegaConf.to_container(composed, resolve=True),
        "device": config.get("grubrics.device"),
        "scores_all_turns": scores_all_turns(config.get("reward.custom_reward_function.path")),
    }


def _vllm(config: Config) -> dict[str, Any] | None:
    """How vLLM runs the config's rollouts; None if another engine does."""
    rollout = config.section("actor_rollout_ref").get("rollout") or {}
    if rollout.get("name") != "vllm":
        return None
    return {
        "tensor_parallel_size": int(rollout.get("tensor_model_parallel_size") or 1),
        "gpu_memory_utilization": float(rollout.get("gpu_memory_utilization") or 0.5),
        "enforce_eager": bool(rollout.get("enforce_eager")),
    }


def _sampling(sampling: SamplingSettings) -> dict[str, Any]:
    return {
        "seed": sampling.seed,
        "sampling": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
        },
        "max_prompt_tokens": sampling.max_prompt_tokens,
        "max_answer_tokens": sampling.max_answer_tokens,
        "filter_long_prompts": sampling.filter_long_prompts,
        "template_arguments": sampling.template_arguments,
        "chat_template": sampling.chat_template,
    }


def _why_failed(evaluation: Evaluation, code: int) -> str:
    """The last line of the log; of a process that was killed, the signal."""
    log = evaluation.folder.path / LOG
    if code < 0:
        cause = "; the host may be out of memory" if -code == signal.SIGKILL else ""
        return f"the process was killed by {signal.Signals(-code).name}{cause} (see {log})"
    lines = [line.decode(errors="replace").strip() for line in last_lines(log, 20)]
    return f"{next((line for line in reversed(lines) if line), 'no output')} (see {log})"
