"""The declarations of a task and of a format of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.base.errors import UsageError, unknown_name
from engine.tasks.rubrics import Message

Values = Mapping[str, Any]
"""The values of a record by the names of a task's ``columns``; None where the record has none."""


class RecordError(ValueError):
    """Why a record is no example of the task, in a few words."""


def text_of(value: Any, name: str) -> str:
    """A text that is not blank. RecordError for any other value, which it calls ``name``."""
    if not isinstance(value, str) or not value.strip():
        raise RecordError(f"the {name} is {'empty' if value in (None, '') else 'not text'}")
    return value


@dataclass(frozen=True)
class Example:
    """One prompt and the truth that its answer is scored against.

    ``extra`` is for the scorer, in ``extra_info``. ``id`` names it in its data set; if empty, the
    prompt identifies it. ``accepted`` are right answers beside the truth. ``source`` is the data
    source by which verl chooses a score; if empty, the task.
    """

    prompt: tuple[Message, ...]
    truth: str
    extra: Mapping[str, str] = field(default_factory=dict)
    id: str = ""
    accepted: tuple[str, ...] = ()
    source: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the prompt, and the right answers."""
        return *(message["content"] for message in self.prompt), self.truth, *self.accepted


@dataclass(frozen=True)
class Column:
    """A value of a record. ``names``: those it usually has, the most likely first.

    ``if_missing``: what follows if no record has a column that is not required, where that is
    seldom meant.
    """

    names: tuple[str, ...]
    is_required: bool = True
    if_missing: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordFormat:
    """How a record becomes a prompt.

    ``extra`` names what ``read`` puts into ``Example.extra``. ``find_limit`` says what the scorer
    cannot do here for a row with these extra values, such as without a package that is not
    installed; None for nothing. A task whose records are in no file makes them in
    ``make_records``, from what stands for a file and a seed.
    """

    name: str
    summary: str
    columns: Mapping[str, Column]
    read: Callable[[Values], Example]
    extra: tuple[str, ...] = ()
    find_limit: Callable[[Mapping[str, str]], str | None] = lambda extra: None
    make_records: Callable[[str, int], Iterable[Values]] | None = None

    def match_columns(self, given: Iterable[str], chosen: Mapping[str, str]) -> dict[str, str]:
        """The column of a file for each of the task's. ``chosen`` overrides the usual names.

        UsageError for a chosen column that the file does not have, and for a required one that is
        not found.
        """
        present = list(given)
        matched = {}
        for name, column in self.columns.items():
            own = chosen.get(name)
            if own is not None and own not in present:
                raise unknown_name("column", own, present)
            found = own or next((usual for usual in column.names if usual in present), None)
            if found is not None:
                matched[name] = found
        missing = [name for name, column in self.columns.items() if name not in matched]
        if any(self.columns[name].is_required for name in missing):
            raise UsageError(self._missing_columns(missing, present))
        return matched

    def _missing_columns(self, missing: Sequence[str], present: Sequence[str]) -> str:
        required = [name for name in missing if self.columns[name].is_required]
        optional = [name for name in missing if name not in required]
        wanted = " and ".join(
            f"no column {' or '.join(self.columns[name].names[:4])} for the {name}"
            for name in required
        )
        named, others = (
            " ".join(f"--column {name}=COLUMN" for name in names) for names in (required, optional)
        )
        advice = f"name it with {named}" + (f" (optional: {others})" if others else "")
        return f"{wanted} (it has {', '.join(present) or 'none'}); {advice}"

    def find_column(self, text: str) -> str | None:
        """The column of this name, or the first that may have it in files; None for none."""
        if text in self.columns:
            return text
        return next((name for name, column in self.columns.items() if text in column.names), None)


@dataclass(frozen=True, kw_only=True)
class Task(RecordFormat):
    """How a record becomes a prompt, and what scores the answers.

    ``scorer`` is ``module:function`` under the contract of verl's ``compute_score``; it runs in a
    process of its own. ``right_answer`` writes a response that must get the full score, from the
    truth and the extra values. ``is_rate`` says whether all scores are 0 (wrong) or 1 (right) with
    these arguments of the scorer. ``metrics`` names the numbers beside the score that an evaluation
    shows, each from 0 (wrong) to 1. ``format_machine`` says how this machine runs the scorer.
    """

    scorer: str
    right_answer: Callable[[str, Mapping[str, str]], str]
    is_rate: Callable[[Mapping[str, Any]], bool] = lambda arguments: False
    metrics: tuple[str, ...] = ()
    format_machine: Callable[[], str] = lambda: ""

    @property
    def module(self) -> str:
        return self.scorer.partition(":")[0]

    @property
    def function(self) -> str:
        return self.scorer.partition(":")[2]


_LONGEST = 200
"""Characters of a truth that a response may consist of; a longer one is a text to compare with."""


def answers_of(truth: Any) -> tuple[str, ...]:
    """The answers of a text, of a list, of a mapping with one list or value, or of their JSON.

    Empty for no truth, and for what is no answer itself, such as tests, a program or a mapping of
    several values.
    """
    if isinstance(truth, str):
        text, value = truth.strip(), _parse(truth)
        if value is not None:
            return answers_of(value)
        return (text,) if text and "\n" not in text and len(text) <= _LONGEST else ()
    if isinstance(truth, Mapping):
        filled = [value for value in truth.values() if value is not None]
        return answers_of(filled[0]) if len(filled) == 1 else ()
    if isinstance(truth, list):
        listed = [answers_of(item) for item in truth if not isinstance(item, list | Mapping)]
        is_plain = len(listed) == len(truth) and all(len(answers) == 1 for answers in listed)
        return tuple(answers[0] for answers in listed) if is_plain else ()
    return () if truth is None else (str(truth),)


def is_empty(truth: Any) -> bool:
    """Whether no answer can match: nothing, blank text, and an empty list or mapping."""
    if isinstance(truth, str):
        value = _parse(truth)
        return not truth.strip() if value is None else is_empty(value)
    if isinstance(truth, list | Mapping):
        return all(map(is_empty, truth.values() if isinstance(truth, Mapping) else truth))
    return truth is None


def _parse(text: str) -> Any:
    """The list or mapping of which this is the JSON; None for other text."""
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
