"""The dialog that asks before something is done, and the one about a run of somebody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen, ScreenResultType
from textual.widgets import Static

from engine.base.errors import UsageError
from engine.run.run import Run
from engine.run.trust import Case, agree, objection
from grubrics_tui.screens.base import Dialog, key_line
from grubrics_tui.widgets.facts import inert

if TYPE_CHECKING:
    from grubrics_tui.settings.settings import Settings


YES = "y"

T = TypeVar("T")


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A key and what it does; ``value`` is what the asker gets, ``also`` a second key."""

    key: str
    label: str
    value: T
    consequence: str = ""
    also: str = ""

    @property
    def keys(self) -> str:
        return f"{self.also} {self.key}".strip()


@dataclass(frozen=True)
class Question(Generic[T]):
    """A question as it is shown. Without answers, it can only be canceled."""

    title: str
    text: str
    answers: Sequence[Answer[T]] = ()


class Confirm(Dialog[ScreenResultType]):
    """Returns the value of the chosen answer, or None if the user cancels.

    Enter does nothing: a key that was meant for something else must not end what took hours. The
    answers stay visible below a long text, and their keys override those of the screen below.
    """

    DEFAULT_CSS = """
    Confirm {
        & > VerticalScroll {
            width: 76; max-width: 95%; height: auto; max-height: 90%; padding: 1 2;
            border: round $warning; border-title-color: $warning;
        }
        #answers { dock: bottom; padding: 1 0 0 0; background: $panel; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,escape,q", "leave", "cancel"),
        Binding("j,down", "scroll(1)", "down"),
        Binding("k,up", "scroll(-1)", "up"),
    ]

    def __init__(
        self,
        question: Question[ScreenResultType],
        prepare: Callable[[], Question[ScreenResultType]] | None = None,
    ) -> None:
        """``prepare`` runs in a thread and returns the question to show instead of the first one.

        A UsageError or OSError from it is shown as the reason why there is nothing to answer.
        """
        super().__init__()
        self._question, self._prepare = question, prepare

    def compose(self) -> ComposeResult:
        text = Static(inert(Content(self._question.text)), id="question", markup=False)
        answers = Static(self._answer_lines(), id="answers", markup=False)
        box = VerticalScroll(text, answers, can_focus=False)
        box.border_title = inert(self._question.title)
        yield box
        yield Static(id="keys", markup=False)

    @on(events.Mount)
    def _start(self) -> None:
        # The height is known only after a layout, and no message reports it.
        self.watch(self.query_one(VerticalScroll), "show_vertical_scrollbar", self._show_keys)
        if self._prepare is not None:
            self.run_worker(self._run_prepare, thread=True, exit_on_error=False)

    def _run_prepare(self) -> None:
        assert self._prepare is not None
        try:
            question = self._prepare()
        except (UsageError, OSError) as error:
            question = Question(self._question.title, str(error))
        self.call_later(self._show, question)

    def _show(self, question: Question[Any]) -> None:
        self._question = question
        self.query_one(VerticalScroll).border_title = inert(self._question.title)
        self.query_one("#question", Static).update(inert(Content(self._question.text)))
        self.query_one("#answers", Static).update(self._answer_lines())
        self._show_keys()

    def on_key(self, event: events.Key) -> None:
        for answer in self._question.answers:
            if event.key in (answer.key, answer.also):
                event.stop()
                self.dismiss(answer.value)
                return

    def action_leave(self) -> None:
        self.dismiss()

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    @property
    def _answers(self) -> list[Answer[Any]]:
        return [*self._question.answers, Answer("n", "cancel", None)]

    def _answer_lines(self) -> Content:
        width = max(len(answer.keys) for answer in self._answers)
        lines = [
            Content.styled(f" {answer.keys:>{width}} ", "bold $primary")
            + Content(f" {answer.label}")
            + Content.styled(f"  {answer.consequence}".rstrip(), "$quiet")
            for answer in self._answers
        ]
        return inert(Content("\n").join(lines))

    def _show_keys(self) -> None:
        keys = [(answer.keys, answer.label) for answer in self._answers]
        if self.query_one(VerticalScroll).show_vertical_scrollbar:
            keys.append(("j k", "scroll"))
        self.query_one("#keys", Static).update(key_line(keys))


def trust_question(case: Case) -> Question[bool]:
    """Who could have written the run, and what it would do."""
    lines = [f"Not trusted yet: {'; '.join(case.reasons)}.", "", *case.lines]
    answer = Answer(YES, "trust this version", True, "asks again after a change")
    return Question(f"Trust {case.subject}?", "\n".join(lines), (answer,))


def when_trusted(
    screen: Screen[Any],
    runs: Sequence[Run],
    act: Callable[[], None],
    *,
    executes: bool = False,
) -> None:
    """Call ``act`` at once, or after the user has agreed for each run that is not trusted yet."""
    cases = (objection(run, executes=executes) for run in runs)
    case = next((case for case in cases if case is not None), None)
    if case is None:
        act()
        return
    settings: Settings | None = getattr(screen.app, "settings", None)
    if settings is not None and settings.read_only:
        screen.notify("Not available in read-only mode: the run is not trusted", markup=False)
        return

    def answered(is_trusted: bool | None) -> None:
        if not is_trusted:
            return
        try:
            agree(case)
        except UsageError as error:
            screen.notify(str(error), title="nothing was done", severity="error", markup=False)
        else:
            when_trusted(screen, runs, act, executes=executes)

    screen.app.push_screen(Confirm(trust_question(case)), answered)
