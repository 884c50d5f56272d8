"""Check that the model sees the question: render and tokenize every row as verl will.

Of files that hold more than ``BUDGET_BYTES`` of text the longest rows are: no shorter one is likely
to have more tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from engine.preflight.chat_template import (
    ChatTemplate,
    Encode,
    RefusedError,
    Rendered,
    SftRenderer,
    read_encoder,
    read_template,
    render_prompts,
)
from engine.preflight.check import Check, Subject, fail, skip, summary, warn
from engine.preflight.samples import Mask, Sample, choose_rows, read_samples, split_files
from engine.recipe.places import is_hub_name, local_folder, model_name
from engine.recipe.recipe import Recipe
from engine.runs.kinds import GRPO, SFT, ByKind

ID = "prompt"
_NAMED = 5
_BATCH = 1024


@dataclass(frozen=True)
class Row:
    """A measured row. ``seen`` begins the rendered text of a row that lacks its question;
    ``is_empty``: there is no question to look for."""

    file: Path
    place: str
    tokens: int
    learned_from: int
    seen: str | None
    differs: str | None
    is_empty: bool = False
    lacks_system: bool = False

    @classmethod
    def of(cls, sample: Sample, rendered: Rendered) -> Row:
        is_seen = sample.essential.strip() in rendered.text
        seen = None if is_seen else " ".join(rendered.text[:400].split())[:80]
        return cls(
            sample.file,
            sample.place,
            rendered.tokens,
            rendered.learned_from,
            seen,
            rendered.differs,
            is_empty=not sample.essential.strip(),
            lacks_system=any(
                message["role"] == "system" and str(message["content"]).strip() not in rendered.text
                for message in sample.messages
            ),
        )

    @property
    def name(self) -> str:
        return f"{self.file.name} {self.place}"


@dataclass(frozen=True)
class Measurement:
    """All measured rows. ``total`` counts those of the files; ``counted``: tokens are known."""

    rows: Sequence[Row]
    total: int
    counted: bool

    def longer_than(self, limit: int) -> list[Row]:
        """The rows over a limit, the longest first."""
        long = [row for row in self.rows if self.counted and row.tokens > limit]
        return sorted(long, key=lambda row: -row.tokens)

    def describe(self) -> str:
        measured, total = len(self.rows), self.total
        return f"all {total:,}" if measured == total else f"the longest {measured:,} of {total:,}"


def check(subject: Subject) -> Check:
    """Render and measure the rows of every training and validation file."""
    recipe, name = subject.recipe, model_name(subject.recipe)
    folder = local_folder(name, subject.env)
    if folder is None:
        return skip(ID, f"{name} is not on this disk; prompts were not rendered")
    try:
        template = read_template(folder, _custom_template(recipe))
    except TemplateError as error:
        return fail(ID, f"the chat template of {folder} cannot be read: {error}")
    if template is None and is_hub_name(name):
        return skip(
            ID, f"the hub's cache has no chat template of {name}, so prompts were not rendered"
        )
    if template is None:
        return fail(ID, f"{folder} has no chat template, so prompts cannot be rendered")
    files = [*split_files(recipe, "train"), *split_files(recipe, "val")]
    masks, total = choose_rows(list(dict.fromkeys(files)), _prompt_key(recipe))
    encode = read_encoder(folder)
    try:
        rows = list(_rows(recipe, template, encode or _characters, masks))
    except RefusedError as error:
        return _refused(recipe, folder, error)
    return _judge(recipe, folder, template, Measurement(rows, total, encode is not None))


def _rows(
    recipe: Recipe, template: ChatTemplate, encode: Encode, masks: Mapping[Path, Mask]
) -> Iterator[Row]:
    """RefusedError names the row that the template refuses."""
    supervised = SftRenderer(template, encode) if recipe.kind == SFT else None
    options = recipe.section("data").get("apply_chat_template_kwargs") or {}
    samples = read_samples(masks, _prompt_key(recipe))
    while batch := list(islice(samples, _BATCH)):
        conversations = [sample.messages for sample in batch]
        try:
            if supervised is not None:
                rendered = supervised.render(conversations)
            else:
                rendered = render_prompts(template, encode, conversations, options)
        except RefusedError as error:
            sample = batch[error.index or 0]
            error.add_note(f"{sample.file.name} {sample.place}")
            raise
        yield from map(Row.of, batch, rendered)


def _refused(recipe: Recipe, folder: Path, error: RefusedError) -> Check:
    places = getattr(error, "__notes__", [])
    if places:
        return fail(
            ID, f"the chat template of {folder} refuses {places[0]}: {error}", _OWN_TEMPLATE
        )
    message = (
        f"verl renders SFT conversations message by message, which the chat template of {folder} "
        f"refuses: {error}"
    )
    return fail(ID, message, _OWN_TEMPLATE)


_OWN_TEMPLATE = (
    "set custom_chat_template to a template that takes them (docs/data.md, Chat templates)"
)


def _judge(recipe: Recipe, folder: Path, template: ChatTemplate, measured: Measurement) -> Check:
    lengths = [row.tokens for row in measured.rows] if measured.counted else []
    long = _LONG[recipe.kind]
    found = [
        *_essential(folder, measured.rows),
        *_systems(folder, measured.rows),
        *_differing(recipe, folder, measured.rows),
        *_empty(measured.rows),
        *long(recipe, measured),
        *_thinking(recipe, template),
    ]
    tokens = _span(lengths) if lengths else "tokens not counted"
    return summary(ID, found, f"{measured.describe()} rows rendered with {folder}: {tokens}")


def _span(lengths: Sequence[int]) -> str:
    low, high = min(lengths), max(lengths)
    return f"{low:,} tokens" if low == high else f"{low:,} to {high:,} tokens"


def _essential(folder: Path, rows: Iterable[Row]) -> Iterator[Check]:
    lacking = [row for row in rows if row.seen is not None]
    if lacking:
        first = lacking[0]
        yield fail(
            ID,
            f"{_names(lacking)}: rendered with {folder} the question is not in the text; of "
            f"{first.place} the model sees {first.seen!r}",
        )


def _systems(folder: Path, rows: Iterable[Row]) -> Iterator[Check]:
    """Some templates pass over a role they do not know, without a word."""
    lacking = [row for row in rows if row.lacks_system and row.seen is None]
    if lacking:
        yield warn(
            ID,
            f"{_names(lacking)}: the chat template of {folder} leaves the system message out, so "
            "that the model never reads it",
            "write it into the first user message, or " + _OWN_TEMPLATE,
        )


def _differing(recipe: Recipe, folder: Path, rows: Iterable[Row]) -> Iterator[Check]:
    """verl compares the joined messages with the whole conversation and stops at a difference."""
    differing = [row for row in rows if row.differs is not None]
    if not differing or recipe.get("data.ignore_input_ids_mismatch"):
        return
    yield fail(
        ID,
        f"{_names(differing)}: verl renders message by message, which lacks "
        f"{differing[0].differs} of what the chat template of {folder} makes of the whole "
        "conversation, and stops at the first such row",
        "data.ignore_input_ids_mismatch=true",
    )


def _empty(rows: Iterable[Row]) -> Iterator[Check]:
    empty = [row for row in rows if row.is_empty]
    if empty:
        yield fail(ID, f"{_names(empty)}: the last message is empty, so the prompt has no question")


def _long_grpo(recipe: Recipe, measured: Measurement) -> Iterator[Check]:
    limit = int(recipe.get("data.max_prompt_length"))
    long = measured.longer_than(limit)
    if not long:
        return
    message = _over(long, measured, "data.max_prompt_length", limit)
    fix = f"data.max_prompt_length={long[0].tokens}"
    if recipe.get("data.filter_overlong_prompts"):
        too_few = _too_few(recipe, measured, long)
        then = f" and would be dropped, which leaves {too_few}" if too_few else " and are dropped"
        yield (fail if too_few else warn)(ID, message + then, fix)
        return
    message += (
        f"; verl cuts their beginning off, so that {limit:,} tokens remain: the model is asked "
        "without its instructions, or without the question"
    )
    truncation = recipe.get("data.truncation")
    if truncation != "left":
        message += f" (data.truncation={truncation} has no effect)"
    message += "; data.filter_overlong_prompts=true drops them"
    yield (warn if truncation == "left" else fail)(ID, message, fix)


def _too_few(recipe: Recipe, measured: Measurement, long: Sequence[Row]) -> str | None:
    """What is left where that is not enough to train or to validate on."""
    dropped = {(row.file, row.place) for row in long}
    for split, least in (("train", int(recipe.get("data.train_batch_size"))), ("val", 1)):
        files = split_files(recipe, "train" if split == "train" else "val")
        rows = [row for row in measured.rows if row.file in files]
        unmeasured = measured.total - len(measured.rows)
        left = sum((row.file, row.place) not in dropped for row in rows) + unmeasured
        if files and left < least:
            what = "training" if split == "train" else "validation"
            return f"{left or 'none'} of the {len(rows):,} {what} rows, fewer than {least} needed"
    return None


def _long_sft(recipe: Recipe, measured: Measurement) -> Iterator[Check]:
    limit = int(recipe.get("data.max_seq_length"))
    long = measured.longer_than(limit)
    if not long:
        return
    lost = [row for row in long if row.learned_from >= limit]
    message = (
        f"{_over(long, measured, 'data.max_seq_length', limit)}; the end is cut off, which is the "
        "end of the answer"
    )
    if lost:
        message += f"; of {_names(lost)} nothing of the answer remains to train on"
    nothing = len(lost) == len(measured.rows)
    yield (fail if nothing else warn)(ID, message, f"data.max_seq_length={long[0].tokens}")


def _over(long: Sequence[Row], measured: Measurement, key: str, limit: int) -> str:
    """The rows over the limit, the longest by name."""
    count = f"{len(long):,} of {measured.describe().removeprefix('all ')} rows"
    named = _names(long, [f" ({row.tokens:,} tokens)" for row in long])
    return f"{count} exceed {key}={limit} tokens: {named}"


def _names(rows: Sequence[Row], details: Sequence[str] = ()) -> str:
    """The first rows by name; a file is named once for all of its rows that follow each other."""
    named, file = [], None
    for row, detail in zip(rows[:_NAMED], details or [""] * _NAMED, strict=False):
        named.append((row.name if row.file != file else row.place) + detail)
        file = row.file
    more = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
    return ", ".join(named) + more


def _thinking(recipe: Recipe, template: ChatTemplate) -> Iterator[Check]:
    """A thinking model spends the response on thoughts, before any rubric."""
    key = "data.apply_chat_template_kwargs.enable_thinking"
    if recipe.kind == GRPO and "enable_thinking" in template.source and recipe.get(key) is None:
        yield warn(
            ID, f"the model generates thoughts by default, and {key} is not set", f"{key}=false"
        )


def _prompt_key(recipe: Recipe) -> str:
    return str(recipe.get("data.prompt_key", "prompt"))


def _custom_template(recipe: Recipe) -> Any:
    return recipe.get(recipe.kind.template_key)


def _characters(texts: Sequence[str]) -> list[list[int]]:
    """Stands in for a tokenizer that cannot be read here: pieces can still be compared."""
    return [list(map(ord, text)) for text in texts]


_LONG = ByKind("prompt", grpo=_long_grpo, sft=_long_sft)
