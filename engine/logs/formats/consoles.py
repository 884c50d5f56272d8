"""Consoles of trainers that print a line, a bar, a dict, a list or a frame for each step.

Each format stands behind its parser; what it looks like is an example in the parser's docstring.
"""

from __future__ import annotations

import re
from contextlib import suppress

from engine.logs.formats.format import About, LineFormat, Sample, StepParser
from engine.logs.formats.hf import find_pairs
from engine.logs.formats.names import NUMBER, bounded, spoken_name, whole_number
from engine.run.history import metrics
from engine.run.history.train_log import Metrics, Step

_OPENRLHF_NAMES = {"gpt_loss": "loss", "actor_lr": "lr", "act_lr": "lr"}


class OpenRlhf(StepParser):
    """``Global step 3: {'policy_loss': 0.01, 'reward': 0.5}`` of PPO. The other trainers draw bars:
    ``Train step of epoch 0:  10%|# | 10/100 [00:05<00:45, 2.0it/s, gpt_loss=1.2, lr=9e-06]``, and
    each epoch counts from 1 again."""

    GLOBAL_STEP = re.compile(rb"Global step (\d{1,15}): \{")
    BAR = re.compile(
        rb"Train step of epoch (\d{1,9}): *\d{1,3}%\|[^|\r\n]{0,200}\| *(\d{1,12})/(\d{1,12}) \["
        rb"[^\[\]]{0,60}?, ([\w./-]{1,80}=[^\]\r\n]{1,4000})\]"
    )
    _PAIR = re.compile(rb"'([\w./-]{1,100})': (?:np\.float\d\d\()?(" + NUMBER + rb")(?=[,)}])")
    _ITEM = re.compile(rb"([\w./-]{1,80})=([-+\d.eEnaif]{1,40})(?:,|$)")

    def step(self, line: bytes) -> Step | None:
        if match := self.GLOBAL_STEP.search(line):
            number, pairs = int(match[1]), self._PAIR.findall(line, match.end() - 1)
        elif match := self.BAR.search(line):
            epoch, done, total = (int(match[index]) for index in (1, 2, 3))
            number, pairs = epoch * total + done, self._ITEM.findall(match[4].replace(b", ", b","))
        else:
            return None
        texts = {raw.decode(): text for raw, text in pairs}
        return self.make(number, {_OPENRLHF_NAMES.get(name, name): texts[name] for name in texts})


class OpenRlhfFormat(LineFormat):
    key, name = "openrlhf", "console of OpenRLHF"
    trainers = ("OpenRLHF",)
    reads = (
        "`Global step 3: {'policy_loss': 0.01, ...}` of PPO; the bars `Train step of epoch 0: ...` "
        "of SFT, DPO and reward models, whose steps count through all epochs"
    )
    is_console, has_bars = True, True
    marks = (rb"Global step ", rb"Train step of epoch ")
    step_pattern = rb"Global step (\d+): \{"
    parser_class = OpenRlhf

    def matches(self, sample: Sample) -> bool:
        return any(
            OpenRlhf.GLOBAL_STEP.search(line) or OpenRlhf.BAR.search(line)
            for line in sample.lines()
            if b"lobal step " in line or b"Train step of epoch " in line
        )

    def complete_part(self, line: bytes) -> bytes:
        return line if line.rstrip().endswith((b"]", b"}")) else b""


class Slime(StepParser):
    """``step 3: {'train/loss': 0.01, ...}`` counts updates; ``rollout 1: {...}``, ``perf 1: {...}``
    and ``eval 1: {...}`` count rollouts, of which each is trained in one update or more."""

    LINE = re.compile(
        rb"(?<!Global )(?<![\w/])(step|rollout|perf|eval|passrate|multi_turn) (\d{1,15}): "
        rb"(\{'[^{}]{1,20000}\})"
    )

    def __init__(self) -> None:
        super().__init__()
        self._rollout = 0
        self._updates = 1
        """Of each rollout, as far as they are seen."""

    def step(self, line: bytes) -> Step | None:
        match = self.LINE.search(line)
        if match is None:
            return None
        number = int(match[2])
        if match[1] == b"step":
            self._updates = max(self._updates, -(-(number + 1) // (self._rollout + 1)))
        else:
            self._rollout, number = number, number * self._updates
        pairs = find_pairs(match[3])
        pairs.pop("train/step", None)
        return self.make(number, pairs)


class SlimeFormat(LineFormat):
    key, name = "slime", "console of slime"
    trainers = ("slime",)
    reads = (
        "`step 3: {'train/loss': ...}` of the trainer, and `rollout 1: {...}`, `perf`, `eval` of "
        "the rollouts that the step trains on"
    )
    is_console = True
    covers = frozenset({"hf"})
    marks = tuple(
        rb"%b \d{1,15}: \{'" % word
        for word in (b"step", b"rollout", b"perf", b"eval", b"passrate", b"multi_turn")
    )
    step_pattern = rb"step (\d+): \{'"
    parser_class = Slime

    def matches(self, sample: Sample) -> bool:
        matches = map(Slime.LINE.search, sample.lines())
        return any(match[1] in (b"step", b"rollout") for match in matches if match is not None)


class Torchtune(StepParser):
    """``1|25|Loss: 0.83:  10%|# | 25/250 [...]``, epoch, step and loss. A bar is drawn several
    times for a step; the first time counts. Its loggers write lines that ``Pairs`` reads."""

    BAR = re.compile(rb"(?:^|\s)\d{1,9}\|(\d{1,15})\|Loss: (" + NUMBER + rb"): ")

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[bytes, bytes] | None = None

    def feed(self, lines: list[bytes]) -> list[Step]:
        steps = []
        for line in lines:
            for match in self.BAR.finditer(line):
                if (match[1], match[2]) != self._last:
                    self._last = match[1], match[2]
                    values = {metrics.TRAIN_LOSS: bounded(float(match[2]))}
                    steps.append(self.numbering.step(int(match[1]), values))
        return steps


class TorchtuneFormat(LineFormat):
    key, name = "torchtune", "progress bar of torchtune"
    trainers = ("torchtune",)
    reads = "`1|25|Loss: 0.83: ...`: step and loss"
    is_console, has_bars = True, True
    marks = (rb"\|Loss: ",)
    step_pattern = rb"\|(\d+)\|Loss: "
    parser_class = Torchtune

    def matches(self, sample: Sample) -> bool:
        return any(Torchtune.BAR.search(line) for line in sample.lines() if b"|Loss: " in line)


_OPEN_INSTRUCT_NAMES = {
    "scores": "reward",
    "objective/scores": "reward",
    "loss/policy_avg": "policy_loss",
    "val/sequence_lengths": "response_length/mean",
    "val/sequence_lengths_min": "response_length/min",
    "val/sequence_lengths_max": "response_length/max",
}


class OpenInstruct(StepParser):
    """A frame of GRPO's metrics, drawn by rich: a row is a category and ``name: number`` with ``|``
    between them, and continues in the next row where it is too long. The other trainers print
    lines that ``Pairs`` reads."""

    BEGIN, SIDE, END = (text.encode() for text in ("─ Metrics ─", "│", "╰─"))
    _ESCAPE = re.compile(rb"\x1b\[[\d;]{0,20}m")
    _ROW = re.compile(rb"(?:  ?([A-Za-z][\w-]{0,40}) {2,}| {3,})(\S.{0,4000})")

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, str] | None = None
        """The text of each category in the frame that is open."""
        self._category = ""

    def step(self, line: bytes) -> Step | None:
        if self.BEGIN in line:
            self._rows, self._category = {}, ""
        elif self._rows is not None and self.END in line:
            rows, self._rows = self._rows, None
            return self._framed(rows)
        elif self._rows is not None:
            inside = self._ESCAPE.sub(b"", line).partition(self.SIDE)[2].rpartition(self.SIDE)[0]
            match = self._ROW.match(inside)
            if match is not None and len(self._rows) <= 200:
                self._category = match[1].decode() if match[1] else self._category
                text = f" {match[2].decode(errors='replace').strip()}"
                self._rows[self._category] = self._rows.get(self._category, "") + text
        return None

    def _framed(self, rows: dict[str, str]) -> Step | None:
        texts: dict[str, str] = {}
        for category, row in rows.items():
            for item in row.split("|"):
                name, _, text = item.strip().rpartition(":")
                path = name.strip() if category == "other" else f"{category}/{name.strip()}"
                usual = f"rollouts/{path[4:]}" if path.startswith("val/") else path
                texts[_OPEN_INSTRUCT_NAMES.get(path, usual)] = text.strip()
        step = whole_number(texts.pop("training_step", None))
        return None if step is None else self.numbering.step(step, self.names.metrics(texts))


class OpenInstructFormat(LineFormat):
    key, name = "open-instruct", "console of open-instruct's GRPO"
    trainers = ("open-instruct",)
    reads = (
        "the frame `Metrics` of each step; its names with `val/`, which are of rollouts, begin "
        "with `rollouts/`"
    )
    is_console = True
    marks = (OpenInstruct.BEGIN, OpenInstruct.SIDE + b" ", OpenInstruct.END)
    step_pattern = rb"training_step: (\d+)\b"
    parser_class = OpenInstruct

    def matches(self, sample: Sample) -> bool:
        ends = sample.head + sample.tail
        return OpenInstruct.BEGIN in ends and b"training_step:" in ends


_PRIME_RL_NAMES = {
    "time": "step_time",
    "peak_mem": "perf/peak_memory_gib",
    "throughput": "perf/throughput",
    "mfu": "perf/mfu",
}


class PrimeRl(StepParser):
    """``Step 3 | Time: 12.30s | Loss: 0.0012 | Grad. Norm: 0.1 | Peak Mem.: 20.1 GiB``. The trainer
    and the orchestrator, which knows the rewards, each write a log of their own."""

    STEP = re.compile(rb"(?:^|[\s\]])Step (\d{1,15}) \| Time: ")
    _FIELD = re.compile(
        rb"([A-Za-z][\w. /-]{0,60}): (" + NUMBER + rb")(?![\w.])|(Time): ([\d.]{1,40})s"
    )

    def step(self, line: bytes) -> Step | None:
        match = self.STEP.search(line)
        if match is None:
            return None
        values: Metrics = {}
        for part in line[match.end(1) :].split(b" | "):
            if field := self._FIELD.match(part.strip()):
                name = spoken_name(field[1] or field[3])
                values[_PRIME_RL_NAMES.get(name, name)] = float(field[2] or field[4])
        return self.make(int(match[1]), values)


class PrimeRlFormat(LineFormat):
    key, name = "prime-rl", "console of prime-rl"
    trainers = ("prime-rl",)
    reads = "`Step 3 | Time: 12.30s | Reward: 0.5 | ...` of trainer and orchestrator"
    is_console = True
    marks = (rb"Step \d+ \| Time: ",)
    step_pattern = rb"Step (\d+) \| Time: "
    parser_class = PrimeRl

    def matches(self, sample: Sample) -> bool:
        return any(PrimeRl.STEP.search(line) for line in sample.lines() if b"| Time: " in line)


_NEMO_SECTIONS = {
    b"Training": "",
    b"Validation": "val/",
    b"Timing": "timing_s/",
    b"Performance Metrics": "perf/",
}


_NEMO_NAMES = {
    "avg_reward": "reward",
    "mean_generation_length": "response_length/mean",
    "timing_s/total_step_time": "step_time",
    "timing_s/generation": "timing_s/gen",
    "timing_s/policy_training": "timing_s/update_actor",
    "val/accuracy": "val/reward",
}


class NemoRl(StepParser):
    """``=== Step 3/100 ===`` begins a step. ``• Loss: 0.0123`` follows ``Training Results:``,
    ``Validation Results:`` or ``Timing:``, where ``• policy_training: 4.50s (36.2%)`` is the time
    of a phase. A step is said again, with more numbers, when a later part of its lists comes."""

    STEP = re.compile(rb"={10,} Step (\d{1,15})/(\d{1,15}) ={10,}")
    _HEADING = re.compile(rb"(Training|Validation) Results:|(Timing):|(Performance Metrics):")
    _ITEM = re.compile("• ([A-Za-z][^:]{0,80}): ".encode() + rb"(" + NUMBER + rb")(?![\d.])")

    def __init__(self) -> None:
        super().__init__()
        self._number: int | None = None
        self._values: Metrics = {}
        self._section: str | None = None

    def feed(self, lines: list[bytes]) -> list[Step]:
        steps, is_new = [], False
        for line in lines:
            if match := self.STEP.search(line):
                if is_new:
                    steps.append(self._make())
                self._number, self._values, is_new = int(match[1]), {}, False
                self._section, self.known = None, About(total_steps=int(match[2]))
            elif match := self._HEADING.search(line):
                self._section = _NEMO_SECTIONS[match[match.lastindex or 0]]
            elif (
                (match := self._ITEM.search(line))
                and self._number is not None
                and self._section is not None
            ):
                name = self._section + spoken_name(match[1])
                self._values[_NEMO_NAMES.get(name, name)] = float(match[2])
                is_new = True
        return [*steps, self._make()] if is_new else steps

    def _make(self) -> Step:
        return self.numbering.step(self._number or 0, self.names.metrics(self._values))


class NemoRlFormat(LineFormat):
    key, name = "nemo-rl", "console of NeMo-RL"
    trainers = ("NeMo-RL",)
    reads = (
        "the lists below `=== Step 3/100 ===`: results of training and validation, times of the "
        "phases, and the number of steps"
    )
    is_console = True
    marks = (rb"===== Step ", "• ".encode(), rb"Training Res", rb"Validation Res", rb"Timing:",
             rb"Performance Met")  # fmt: skip
    step_pattern = rb"== Step (\d+)/\d+ =="
    parser_class = NemoRl

    def matches(self, sample: Sample) -> bool:
        lines = sample.lines()
        return any(NemoRl.STEP.search(line) for line in lines) and any(
            b"Training Results:" in line for line in lines
        )


class Pairs(StepParser):
    """``step=3 loss=0.5``, as scripts, torchtune's logger and open-instruct print it; the number of
    steps may follow: ``Step 3/100 | loss: 0.5, lr: 1e-5``. It needs a loss or a reward."""

    STEP = re.compile(
        rb"(?:^|[\s\[(|,;>])(?:global_)?[Ss]tep(?:[=:] ?| )(\d{1,15})(?:/(\d{1,15}))?"
        rb"(?=[\s\],;:|)])"
    )
    PAIR = re.compile(
        rb"(?<![\w./-])([A-Za-z_][\w./-]{0,80})(?:=|: ?)"
        rb"(" + NUMBER + rb")(?=[\s,;|\])]|$)",
        re.IGNORECASE,
    )
    _USUAL = frozenset({"loss", "lr", "reward", "kl", "entropy", "grad_norm"})

    def step(self, line: bytes) -> Step | None:
        match = self.STEP.search(line)
        if match is None:
            return None
        pairs: dict[str, float] = {}
        for raw, number in self.PAIR.findall(line, match.end()):
            name = raw.decode()
            # ``Loss: 1.5, Aux Loss: 0.1``: the first one of a name has no word before it.
            with suppress(ValueError):
                lower = name.lower()
                pairs.setdefault(lower if lower in self._USUAL else name, float(number))
        if not pairs:
            return None
        if match[2]:
            self.known = About(total_steps=int(match[2]))
        return self.numbering.step(int(match[1]), self.names.metrics(pairs))


class PairsFormat(LineFormat):
    key, name = "pairs", "lines of step=3 loss=0.5"
    trainers = ("torchtune", "open-instruct")
    reads = (
        "`step=3 loss=0.5 lr=1e-5`, `Step 3/100 | loss: 0.5`: a step, then names with numbers, one "
        "of them a loss or a reward"
    )
    is_console = True
    is_general = True
    step_pattern = rb"step=(?<![\w/]step=)(\d+)[ ,|]"
    marks = (rb"step[=: ]", rb"Step[=: ]")
    parser_class = Pairs

    def matches(self, sample: Sample) -> bool:
        return any(
            (match := Pairs.STEP.search(line)) is not None
            and any(
                b"loss" in name.lower() or b"reward" in name.lower()
                for name, _ in Pairs.PAIR.findall(line, match.end())
            )
            for line in sample.lines()
            if b"tep" in line
        )
