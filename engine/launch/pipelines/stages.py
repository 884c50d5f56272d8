"""The YAML file of a pipeline: a name, and stages in their order.

A stage is its kind with the words of a command, and a name (default: the kind). ``$sft.run`` in the
words stands for the run of an earlier stage ``sft``, and ``$sft.model`` for its final model.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import UsageError, shorten, unknown_name
from engine.base.masking import mask_words
from engine.run.kinds import GRPO, SFT, Kind

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_REFERENCE = re.compile(r"\$([A-Za-z0-9][A-Za-z0-9_-]*)\.([A-Za-z_]+)")
RUN, MODEL = "run", "model"
"""What words can name of an earlier stage."""


@dataclass(frozen=True)
class StageKind:
    """One kind of stage. ``command`` are the words of grubrics-tui before those of the stage; empty
    for a stage that runs any program."""

    name: str
    command: tuple[str, ...]
    trains: Kind | None = None
    """The kind of its run, if it launches a config."""
    uses_gpus: bool = True


KINDS = {
    kind.name: kind
    for kind in (
        StageKind("download", ("model", "fetch"), uses_gpus=False),
        StageKind("prepare", ("prepare",), uses_gpus=False),
        StageKind("sft", ("launch",), trains=SFT),
        StageKind("grpo", ("launch",), trains=GRPO),
        StageKind("evaluate", ("evaluate",)),
        StageKind("run", ()),
    )
}


@dataclass(frozen=True)
class Stage:
    """One stage; ``words`` are as in the file."""

    name: str
    kind: StageKind
    words: tuple[str, ...]

    def references(self) -> Iterator[tuple[str, str]]:
        """Yield the stages that the words name, each with ``run`` or ``model``."""
        for word in self.words:
            yield from _REFERENCE.findall(word)

    def with_outputs(self, output_of: Callable[[str, str], str | None]) -> tuple[str, ...]:
        """Return the words with the outputs of other stages.

        ``output_of`` returns the output of a stage, or None for text that names none.
        """

        def replace(match: re.Match[str]) -> str:
            output = output_of(match[1], match[2])
            return match[0] if output is None else output

        return tuple(_REFERENCE.sub(replace, word) for word in self.words)

    def launch_words(self, run: str, words: Sequence[str]) -> list[str]:
        """Return the words of grubrics-tui that launch the stage as the run ``run``."""
        if self.kind.trains:
            return [*self.kind.command, *words, "--name", run]
        gpus = () if self.kind.uses_gpus else ("--gpus", "0")
        program = ("grubrics-tui", *self.kind.command) if self.kind.command else ()
        return ["run", "--name", run, *gpus, "--", *program, *words]


@dataclass(frozen=True)
class Pipeline:
    """A pipeline as its file describes it."""

    path: Path
    name: str
    stages: tuple[Stage, ...]

    def skipped(self, skip: Collection[str], start: str | None) -> frozenset[str]:
        """Return the stages in ``skip`` and those before ``start``.

        UsageError for an unknown stage, and if no stage is left.
        """
        names = [stage.name for stage in self.stages]
        for name in (*skip, *([start] if start is not None else [])):
            if name not in names:
                raise unknown_name(f"{self.path}: stage", name, names)
        before = names[: names.index(start)] if start is not None else []
        chosen = frozenset((*skip, *before))
        if len(chosen) == len(names):
            raise UsageError(f"{self.path}: every stage is skipped")
        return chosen


def read_pipeline(path: Path) -> Pipeline:
    """Read the file of a pipeline. UsageError for an unknown key, kind or stage, with the nearest
    one, and for a value that none can have."""
    content = _read_mapping(path)
    _require_known(f"{path}: key", content, ("name", "stages"))
    name = _read_name(f"{path}: name", content.get("name", path.stem))
    items = content.get("stages")
    if not isinstance(items, list) or not items:
        raise UsageError(
            f"{path}: stages must be a list, e.g. '- sft: CONFIG' and below '- grpo: CONFIG'"
        )
    stages = [_read_stage(f"{path}: stage {n}", item) for n, item in enumerate(items, 1)]
    for index, stage in enumerate(stages):
        if stage.name in {earlier.name for earlier in stages[:index]}:
            raise UsageError(
                f"{path}: two stages are called '{stage.name}'. Give one another name: name: NAME"
            )
        _check_references(path, stage, stages, index)
    return Pipeline(path, name, tuple(stages))


def _read_mapping(path: Path) -> dict[str, object]:
    from engine.base.yaml_files import read_yaml  # The list of commands needs no YAML.

    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UsageError(f"{path}: must have the keys name and stages")
    if "grubrics" in content:
        raise UsageError(
            f"{path} is a config, not a pipeline. To train it: grubrics-tui launch {path}"
        )
    return content


def _require_known(what: str, content: Iterable[object], known: Collection[str]) -> None:
    for key in content:
        if key not in known:
            raise unknown_name(what, str(key), known)


def _read_name(where: str, value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise UsageError(
            f"{where}: {shorten(repr(value))} must be ASCII letters, digits, '_' or '-', at most 40"
        )
    return value


def _read_stage(where: str, item: object) -> Stage:
    if not isinstance(item, dict):
        raise UsageError(f"{where}: write KIND: WORDS, e.g. sft: sft_tiny lr=1e-4")
    _require_known(f"{where}: key", item, (*KINDS, "name"))
    kinds = [key for key in item if key in KINDS]
    if len(kinds) != 1:
        found = f"has {' and '.join(kinds)}" if kinds else "has no kind"
        raise UsageError(f"{where} {found}; it must have one of {', '.join(KINDS)}")
    name = _read_name(f"{where}: name", item.get("name", kinds[0]))
    return Stage(name, KINDS[kinds[0]], _read_words(f"{where}: {kinds[0]}", item[kinds[0]]))


def _read_words(where: str, value: object) -> tuple[str, ...]:
    """Return the words of a text or a list. A manifest keeps them, so none may be a secret."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise UsageError(f"{where}: {shorten(str(value))}: {error}") from error
    if not isinstance(words, list) or not words or not all(map(_is_word, words)):
        raise UsageError(f"{where}: write the words of the command as one text, or as a list")
    texts = tuple(str(word) for word in words)
    if any("\0" in text for text in texts):
        raise UsageError(f"{where}: a word of a command cannot have a NUL character")
    if mask_words(texts) != list(texts):
        raise UsageError(f"{where} holds a secret. Set it in the environment or in .env instead")
    return texts


def _is_word(value: object) -> bool:
    """Whether a value of YAML is a text or a number."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _check_references(path: Path, stage: Stage, stages: Sequence[Stage], index: int) -> None:
    """Raise UsageError if the words name no earlier stage, or what such a stage does not have."""
    earlier = {other.name: other.kind for other in stages[:index]}
    everything = {other.name for other in stages}
    for name, output in stage.references():
        where = f"{path}: stage '{stage.name}': ${name}.{output}"
        if name not in everything and output not in (RUN, MODEL):
            continue  # Text of a script.
        if name not in earlier:
            if name in everything:
                raise UsageError(f"{where}: '{name}' is not an earlier stage")
            raise unknown_name(f"{where}: earlier stage", name, earlier)
        if output not in (RUN, MODEL):
            raise unknown_name(f"{where}: output", output, (RUN, MODEL))
        if output == MODEL and not earlier[name].trains:
            raise UsageError(f"{where}: a stage '{earlier[name].name}' trains no model")
