"""Check that the model sees the question: render and tokenize every row as verl will.

Of files with more than ``BUDGET_BYTES`` of text, only the longest rows are rendered: a shorter one
is unlikely to have more tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from jinja2 import TemplateError

from engine.base.quantities import format_count
from engine.checks.chat_template import (
    ChatTemplate,
    Encode,
    RefusedError,
    Rendered,
    SftRenderer,
    read_encoder,
    read_template,
    render_prompts,
)
from engine.checks.check import Check, Subject, fail, skip, summary, warn
from engine.checks.estimate.model_shape import context_of
from engine.checks.samples import (
    Mask,
    Sample,
    choose_rows,
    prompt_key,
    read_samples,
    row_label,
    split_files,
)
from engine.checks.token_view import TokenView
from engine.config.load import Config
from engine.config.places import is_hub_name, local_folder, model_name
from engine.config.steps import OWN_DATA_SET, own_data_set
from engine.reward.scorer import Blocklist
from engine.run.kinds import GRPO, SFT, ByKind

ID = "prompt"
_MAX_NAMED = 5
_BATCH = 1024
_OWN_TEMPLATE = (
    "set custom_chat_template to a template that takes them (docs/data.md, Chat templates)"
)


@dataclass(frozen=True)
class Row:
    """A rendered row.

    ``visible`` is the beginning of a rendered text that lacks its question. ``is_empty``: the row
    has no question. ``learned_from`` and ``differs``: see ``Rendered``. ``blocked`` is a text of
    ``grubrics.blocklist`` in the prompt.
    """

    file: Path
    label: str
    tokens: int
    learned_from: int
    visible: str | None
    differs: str | None
    is_empty: bool
    lacks_system: bool
    blocked: str | None

    @classmethod
    def of(cls, sample: Sample, rendered: Rendered, blocklist: Blocklist | None = None) -> Row:
        question = sample.essential.strip()
        beginning = " ".join(rendered.text[:400].split())[:80]
        return cls(
            sample.file,
            row_label(sample.file, sample.row),
            rendered.tokens,
            rendered.learned_from,
            None if question in rendered.text else beginning,
            rendered.differs,
            is_empty=not question,
            lacks_system=any(
                message["role"] == "system" and str(message["content"]).strip() not in rendered.text
                for message in sample.messages
            ),
            blocked=next(iter(blocklist.find(rendered.text)), None) if blocklist else None,
        )

    @property
    def name(self) -> str:
        return f"{self.file.name} {self.label}"


@dataclass(frozen=True)
class Measurement:
    """All rendered rows, of ``total`` in the files. ``counted``: whether tokens are known.
    ``context``: that of the model in tokens; 0 if it is not known."""

    rows: Sequence[Row]
    total: int
    counted: bool
    context: int

    def longer_than(self, limit: int) -> list[Row]:
        """The rows over a limit, the longest first."""
        long = [row for row in self.rows if self.counted and row.tokens > limit]
        return sorted(long, key=lambda row: -row.tokens)

    def describe(self) -> str:
        measured, total = len(self.rows), self.total
        return f"all {total:,}" if measured == total else f"the longest {measured:,} of {total:,}"


def check(subject: Subject) -> Check:
    """Render and measure the rows of every training and validation file."""
    config, name = subject.config, model_name(subject.config)
    if own_data_set(config):
        return skip(
            ID, f"{OWN_DATA_SET} makes the prompts, so those of the files were not rendered"
        )
    folder = local_folder(name, subject.env)
    if folder is None:
        return skip(ID, f"{name} is not on this disk; prompts were not rendered")
    try:
        template = read_template(folder, config.get(config.kind.template_key))
    except TemplateError as error:
        return fail(ID, f"the chat template of {folder} cannot be read: {error}")
    if template is None and is_hub_name(name):
        return skip(
            ID, f"the hub's cache has no chat template of {name}, so prompts were not rendered"
        )
    if template is None:
        return fail(ID, f"{folder} has no chat template, so prompts cannot be rendered")
    files = [*split_files(config, "train"), *split_files(config, "val")]
    masks, total = choose_rows(list(dict.fromkeys(files)), prompt_key(config))
    encoder = read_encoder(folder)
    # Without a tokenizer, pieces can still be compared by their characters.
    encode = encoder or (lambda texts: [list(map(ord, text)) for text in texts])
    try:
        rows = list(_render_rows(subject, template, encode, masks))
    except RefusedError as error:
        if labels := getattr(error, "__notes__", []):
            message = f"the chat template of {folder} refuses {labels[0]}: {error}"
        else:
            message = (
                "verl renders SFT conversations message by message, which the chat template of "
                f"{folder} refuses: {error}"
            )
        return fail(ID, message, _OWN_TEMPLATE)
    context = context_of(name, subject.env)
    measurement = Measurement(rows, total, encoder is not None, context)
    _note_lengths(subject, measurement)
    return _check_rows(config, folder, template, measurement)


def _note_lengths(subject: Subject, measurement: Measurement) -> None:
    """Note what later checks need: the longest prompt that is used, and the rows to be dropped."""
    config = subject.config
    if config.kind != GRPO or not measurement.counted:
        return
    limit = int(config.get("data.max_prompt_length"))
    used = (row.tokens for row in measurement.rows if row.tokens <= limit)
    subject.prompts.longest = max(used, default=0)
    if config.get("data.filter_overlong_prompts"):
        files = split_files(config, "train")
        long = measurement.longer_than(limit)
        subject.prompts.dropped = sum(row.file in files for row in long)


def _render_rows(
    subject: Subject, template: ChatTemplate, encode: Encode, masks: Mapping[Path, Mask]
) -> Iterator[Row]:
    """Render the chosen rows. A note of RefusedError names the row that the template refuses."""
    config = subject.config
    sft_renderer = SftRenderer(template, encode) if config.kind == SFT else None
    options = dict(config.section("data").get("apply_chat_template_kwargs") or {})
    if isinstance(view := subject.tool_view, TokenView) and view.tools is not None:
        options["tools"] = list(view.tools.schemas)
    blocklist = Blocklist.of_section(config.section("grubrics")) if config.kind == GRPO else None
    samples = read_samples(masks, prompt_key(config))
    while batch := list(islice(samples, _BATCH)):
        conversations = [sample.messages for sample in batch]
        try:
            if sft_renderer is not None:
                rendered = sft_renderer.render(conversations)
            else:
                rendered = render_prompts(template, encode, conversations, options)
        except RefusedError as error:
            sample = batch[error.index or 0]
            error.add_note(f"{sample.file.name} {row_label(sample.file, sample.row)}")
            raise
        yield from (
            Row.of(sample, text, blocklist) for sample, text in zip(batch, rendered, strict=True)
        )


def _check_rows(
    config: Config, folder: Path, template: ChatTemplate, measurement: Measurement
) -> Check:
    rows = measurement.rows
    problems = [
        *_missing_parts(config, folder, rows),
        *_LONG[config.kind](config, measurement),
        *_blocked(rows),
    ]
    # A thinking model spends the response on thoughts, before any rubric.
    key = "data.apply_chat_template_kwargs.enable_thinking"
    if config.kind == GRPO and "enable_thinking" in template.source and config.get(key) is None:
        message = f"the model generates thoughts by default, and {key} is not set"
        problems.append(warn(ID, message, f"{key}=false"))
    tokens = "tokens not counted"
    if measurement.counted and rows:
        low, high = min(row.tokens for row in rows), max(row.tokens for row in rows)
        tokens = f"{low:,} tokens" if low == high else f"{low:,} to {high:,} tokens"
    return summary(ID, problems, f"{measurement.describe()} rows rendered with {folder}: {tokens}")


def _missing_parts(config: Config, folder: Path, rows: Sequence[Row]) -> Iterator[Check]:
    """Check that the rendered texts have the question, the system message and every message."""
    if hidden := [row for row in rows if row.visible is not None]:
        yield fail(
            ID,
            f"{_format_rows(hidden)}: rendered with {folder}, the text lacks the question; of "
            f"{hidden[0].label} the model sees {hidden[0].visible!r}",
        )
    # Some templates skip a role that they do not know, without an error.
    if without_system := [row for row in rows if row.lacks_system and row.visible is None]:
        yield warn(
            ID,
            f"{_format_rows(without_system)}: the chat template of {folder} leaves the system "
            "message out, so that the model never reads it",
            "write it into the first user message, or " + _OWN_TEMPLATE,
        )
    # verl compares the joined messages with the whole conversation and stops at a difference.
    differing = [row for row in rows if row.differs is not None]
    if differing and not config.get("data.ignore_input_ids_mismatch"):
        yield fail(
            ID,
            f"{_format_rows(differing)}: verl renders message by message, which loses "
            f"{differing[0].differs} that the chat template of {folder} writes for the whole "
            "conversation. verl stops at the first such row",
            "data.ignore_input_ids_mismatch=true",
        )
    if empty := [row for row in rows if row.is_empty]:
        names = _format_rows(empty)
        yield fail(ID, f"{names}: the last message is empty, so the prompt has no question")


def _blocked(rows: Sequence[Row]) -> Iterator[Check]:
    """A response often repeats a text of its prompt."""
    if blocked := [row for row in rows if row.blocked is not None]:
        verb = "contains" if len(blocked) == 1 else "contain"
        names = _format_rows(blocked, [f" ({row.blocked!r})" for row in blocked])
        yield warn(
            ID,
            f"{format_count(len(blocked), 'prompt')} {verb} a text of grubrics.blocklist: {names}",
            "remove the text from the list, or the rows from the data",
        )


def _long_grpo(config: Config, measurement: Measurement) -> Iterator[Check]:
    limit = int(config.get("data.max_prompt_length"))
    long = measurement.longer_than(limit)
    if not long:
        return
    message = _describe_long(long, measurement, "data.max_prompt_length", limit)
    too_few = _too_few(config, measurement, long)
    fix = _room_for(config, long[0].tokens, measurement.context, shorten=too_few is not None)
    if config.get("data.filter_overlong_prompts"):
        effect = f" and would be dropped, which leaves {too_few}" if too_few else " and are dropped"
        yield (fail if too_few else warn)(ID, message + effect, fix)
        return
    message += (
        f"; verl keeps only their last {limit:,} tokens, so the model does not see the "
        "instructions or the question"
    )
    truncation = config.get("data.truncation")
    if truncation != "left":
        message += f" (data.truncation={truncation} has no effect)"
    drop = None if too_few else "data.filter_overlong_prompts=true"
    if drop is not None:
        message += f"; {drop} drops them"
    elif fix is None:
        message += (
            f"; without them, {too_few}: the model needs a longer context, or shorter prompts"
        )
    yield (warn if truncation == "left" else fail)(ID, message, fix or drop)


def _room_for(config: Config, tokens: int, context: int, *, shorten: bool) -> str | None:
    """The lengths with which the longest prompt is used, within the model's context; None for
    none. ``shorten``: the response may become shorter."""
    response = int(config.get("data.max_response_length"))
    longer = f"data.max_prompt_length={tokens}"
    if not context or tokens + response <= context:
        return longer
    return (
        f"{longer} data.max_response_length={context - tokens}"
        if shorten and tokens < context
        else None
    )


def _too_few(config: Config, measurement: Measurement, long: Sequence[Row]) -> str | None:
    """Describe what is left without the long rows, if it is too little to train or validate on."""
    dropped = {(row.file, row.label) for row in long}
    unmeasured = measurement.total - len(measurement.rows)
    for name, files, least in (
        ("training", split_files(config, "train"), int(config.get("data.train_batch_size"))),
        ("validation", split_files(config, "val"), 1),
    ):
        rows = [row for row in measurement.rows if row.file in files]
        left = sum((row.file, row.label) not in dropped for row in rows) + unmeasured
        if files and left < least:
            return f"{left or 'none'} of the {len(rows):,} {name} rows, fewer than {least} needed"
    return None


def _long_sft(config: Config, measurement: Measurement) -> Iterator[Check]:
    limit = int(config.get("data.max_seq_length"))
    long = measurement.longer_than(limit)
    if not long:
        return
    lost = [row for row in long if row.learned_from >= limit]
    message = _describe_long(long, measurement, "data.max_seq_length", limit)
    message += "; verl cuts off the end of the answer"
    if lost:
        message += f"; {_format_rows(lost)}: nothing of the answer remains to train on"
    are_all_lost = len(lost) == len(measurement.rows)
    longest = min(long[0].tokens, measurement.context or long[0].tokens)
    fix = f"data.max_seq_length={longest}" if longest > limit else None
    yield (fail if are_all_lost else warn)(ID, message, fix)


_LONG = ByKind("prompt", grpo=_long_grpo, sft=_long_sft)


def _describe_long(long: Sequence[Row], measurement: Measurement, key: str, limit: int) -> str:
    """Describe the rows over the limit, the longest by name."""
    count = f"{len(long):,} of {measurement.describe().removeprefix('all ')} rows"
    names = _format_rows(long, [f" ({row.tokens:,} tokens)" for row in long])
    return f"{count} exceed {key}={limit} tokens: {names}"


def _format_rows(rows: Sequence[Row], details: Sequence[str] = ()) -> str:
    """Name the first rows; consecutive rows of one file share its name."""
    names, file = [], None
    for row, detail in zip(rows[:_MAX_NAMED], details or [""] * _MAX_NAMED, strict=False):
        names.append((row.name if row.file != file else row.label) + detail)
        file = row.file
    more = f" and {len(rows) - _MAX_NAMED:,} more" if len(rows) > _MAX_NAMED else ""
    return ", ".join(names) + more
