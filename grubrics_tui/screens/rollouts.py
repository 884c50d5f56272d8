"""What the model answered: the groups of a step, why an answer won, whether the judge is right."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Footer, Input
from textual.worker import get_current_worker

from engine.errors import UsageError
from engine.runs.rundir import RunDir
from engine.watch.reward_records import Split
from engine.watch.rollout_query import Filter
from engine.watch.rollouts import Answer, RolloutStore, StepRollouts, Visit
from engine.watch.word_diff import Piece, differences
from grubrics_tui.actions import bindings
from grubrics_tui.drawing.rollouts import common_tail, mark_of
from grubrics_tui.drawing.spans import Row
from grubrics_tui.rollout_layout import Shown, answer_rows
from grubrics_tui.rollout_view import Hit, RolloutView
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.terminal_text import clean_text
from grubrics_tui.widgets.rollout_panels import AnswerList, PromptPanel, PromptTrend, RolloutHead
from grubrics_tui.widgets.scroll_text import ScrollText

_POLL_S = 2.0
_FRAME_PROMPTS = 8
"""So many prompts of a step tell what all of them end with."""

_WIDTHS = [(0, "-narrow"), (100, "-wide"), (180, "-pair")]
_HEIGHTS = [(0, "-tiny"), (16, "-short"), (32, "-tall")]
_FILTER_HINT = "score<0.5  length>1000  advantage>0  alignment>=0.9  error  flat  best  untrained"


@dataclass(frozen=True)
class GroupTexts:
    """The texts of the group on the screen, and what an answer does not share with its rival."""

    place: tuple[str, int, str] = ("", 0, "")
    prompt: str = ""
    texts: Mapping[int, str] = field(default_factory=dict)
    diffs: Mapping[tuple[int, int], tuple[Piece, ...]] = field(default_factory=dict)


class RolloutsScreen(CockpitScreen):
    """Threads read the files and post what they found; a newer question ends the older one."""

    BINDINGS = bindings("rollouts")
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = _WIDTHS
    VERTICAL_BREAKPOINTS = _HEIGHTS

    DEFAULT_CSS = """
    RolloutsScreen {
        #body { height: 1fr; margin: 0 1; }
        #rival { display: none; }
        Input, Input:focus {
            display: none; height: 1; border: none; padding: 0 1; margin: 0 1; background: $panel;
        }
        Input.-open, Input.-open:focus { display: block; }
        PromptTrend.-open { display: block; }
        &.-pair #rival { display: block; }
        &.-pair AnswerList { width: 48; }
        &.-narrow AnswerList { display: none; }
        &.-narrow, &.-short {
            PromptPanel { height: 5; }
            PromptTrend { height: 7; }
        }
        &.-short.-following PromptPanel { display: none; }
        &.-tiny {
            PromptPanel { display: none; }
            PromptTrend { height: 5; }
        }
        &.-reading {
            AnswerList, PromptPanel, PromptTrend, PromptTrend.-open, #rival { display: none; }
        }
    }
    """

    class Listed(Message):
        """The steps that have rollouts by now."""

        def __init__(self, split: Split, steps: tuple[int, ...]) -> None:
            super().__init__()
            self.split, self.steps = split, steps

    class Loaded(Message):
        """A step was read; ``frame`` is what all its prompts end with."""

        def __init__(self, read: StepRollouts, group: str, frame: str) -> None:
            super().__init__()
            self.read, self.group, self.frame = read, group, frame

    class TextsRead(Message):
        def __init__(self, texts: GroupTexts) -> None:
            super().__init__()
            self.texts = texts

    class Compared(Message):
        def __init__(
            self, place: tuple[str, int, str], pair: tuple[int, int], pieces: tuple[Piece, ...]
        ) -> None:
            super().__init__()
            self.place, self.pair, self.pieces = place, pair, pieces

    class Searched(Message):
        """Answers that hold the text; ``done`` of ``total`` groups were looked through."""

        def __init__(self, hits: frozenset[Hit], done: int, total: int) -> None:
            super().__init__()
            self.hits, self.done, self.total = hits, done, total

    class Followed(Message):
        """Where the prompt was asked, so far."""

        def __init__(self, visits: tuple[Visit, ...], done: int, total: int) -> None:
            super().__init__()
            self.visits, self.done, self.total = visits, done, total

    def __init__(self, run: RunDir, step: int | None = None) -> None:
        super().__init__()
        self.run = run
        self.store = RolloutStore(run.path)
        self.view = RolloutView()
        self.texts = GroupTexts()
        self.sought = ""
        self._first_step = step
        self._frame, self._note, self._asking = "", "", ""
        self._diff = False
        self._left = threading.Event()

    def compose(self) -> ComposeResult:
        yield RolloutHead(self.run.id)
        yield PromptPanel()
        with Horizontal(id="body"):
            yield AnswerList()
            yield ScrollText(id="answer", classes="-current")
            yield ScrollText(id="rival")
        yield PromptTrend()
        yield Input(id="ask")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(AnswerList).border_title = "answers"
        self.query_one(PromptPanel).border_title = "prompt"
        self._poll()

    def on_unmount(self) -> None:
        self._left.set()

    # --- reading, in threads

    @work(thread=True, exclusive=True, group="steps", exit_on_error=False)
    def _poll(self) -> None:
        worker, split, shown = get_current_worker(), self.view.split, None
        while not worker.is_cancelled and not self._left.is_set():
            steps = self.store.steps(split, lambda: worker.is_cancelled)
            # Of a step that goes on there may be more by now, and in the end its dump.
            if steps != shown or (self.view.read is not None and not self.view.read.dumped):
                self.post_message(self.Listed(split, steps))
                shown = steps
            self._left.wait(_POLL_S)

    @work(thread=True, exclusive=True, group="step", exit_on_error=False)
    def _load(self, split: Split, step: int, group: str = "") -> None:
        worker = get_current_worker()
        read = self.store.load(split, step, lambda: worker.is_cancelled)
        frame = common_tail({one.prompt() for one in islice(read.groups, _FRAME_PROMPTS)})
        if not worker.is_cancelled:
            self.post_message(self.Loaded(read, group, frame))

    @work(thread=True, exclusive=True, group="texts", exit_on_error=False)
    def _read_texts(self) -> None:
        worker, group, place = get_current_worker(), self.view.group, self._place
        if group is None:
            return
        texts: dict[int, str] = {}
        for answer in group.answers:
            if worker.is_cancelled:
                return
            texts[answer.rollout] = answer.text()
        self.post_message(self.TextsRead(GroupTexts(place, group.prompt(), texts)))

    @work(thread=True, exclusive=True, group="diff", exit_on_error=False)
    def _compare(self, pair: tuple[int, int]) -> None:
        texts, worker = self.texts, get_current_worker()
        pieces = differences(texts.texts.get(pair[0], ""), texts.texts.get(pair[1], ""))
        if not worker.is_cancelled:
            self.post_message(self.Compared(texts.place, pair, pieces))

    @work(thread=True, exclusive=True, group="search", exit_on_error=False)
    def _search(self, query: str) -> None:
        worker, groups, hits = get_current_worker(), self.view.groups, set[Hit]()
        wanted = query.casefold()
        for done, group in enumerate(groups, 1):
            for answer in group.answers:
                if worker.is_cancelled:
                    return
                if wanted in clean_text(answer.text()).casefold():
                    hits.add((group.id, answer.rollout))
            if done == len(groups) or done % 16 == 0:
                self.post_message(self.Searched(frozenset(hits), done, len(groups)))

    @work(thread=True, exclusive=True, group="follow", exit_on_error=False)
    def _follow(self, prompt: str, split: Split, total: int) -> None:
        worker, found = get_current_worker(), list[Visit]()
        looked = self.store.visits(prompt, split, lambda: worker.is_cancelled)
        for done, (_, visits) in enumerate(looked, 1):
            if worker.is_cancelled:
                return
            found += visits
            if visits or done >= total or done % 16 == 0:
                self.post_message(self.Followed(tuple(found), done, max(total, done)))

    # --- what was read

    @on(Listed)
    def _list(self, message: Listed) -> None:
        if message.split != self.view.split:
            return
        self.view = replace(self.view, steps=message.steps)
        if not message.steps:
            kind = "validation" if message.split == "val" else "training"
            self._note = f"no {kind} rollouts in {self.run.path} yet"
        elif self.view.read is None:
            wanted = self._first_step if self._first_step is not None else message.steps[-1]
            self._load(message.split, min(message.steps, key=lambda one: abs(one - wanted)))
        elif not self.view.read.dumped and self.view.read.step in message.steps:
            self._load(message.split, self.view.read.step)
        self._show()

    @on(Loaded)
    def _take_step(self, message: Loaded) -> None:
        if message.read.split != self.view.split:
            return  # Asked for before the other split was chosen.
        if message.read == self.view.read and not message.group:
            return
        before = self._place
        self._frame = message.frame
        view = replace(self.view, group_id=message.group or self.view.group_id)
        self.view = view.loaded(message.read)
        if before[:2] != self._place[:2] and self.sought:
            self._search(self.sought)
        if before == self._place:
            self._read_texts()
        self._look()

    @on(TextsRead)
    def _take_texts(self, message: TextsRead) -> None:
        if message.texts.place == self._place:
            self.texts = message.texts
            self._show()

    @on(Compared)
    def _take_diff(self, message: Compared) -> None:
        if message.place == self.texts.place:
            diffs = {**self.texts.diffs, message.pair: message.pieces}
            self.texts = replace(self.texts, diffs=diffs)
            self._show(keep_place=True)

    @on(Searched)
    def _take_hits(self, message: Searched) -> None:
        if not self.sought:
            return
        done = message.done >= message.total
        found = f"{len(message.hits)} with '{self.sought}'"
        self._note = found if done else f"{found}, {message.done} of {message.total} groups"
        self.view = replace(self.view, hits=message.hits)
        here = (self._place[2], self.view.answer.rollout) if self.view.answer else None
        if done and message.hits and here not in message.hits:
            self.action_hit(1)
        else:
            self._show(keep_place=True)

    @on(Followed)
    def _take_visits(self, message: Followed) -> None:
        if self.view.visits is None:
            return
        done = message.done >= message.total
        self._note = "" if done else f"looked into {message.done} of {message.total} steps"
        self.view = replace(self.view, visits=message.visits)
        self._show(keep_place=True)

    # --- showing

    @property
    def _place(self) -> tuple[str, int, str]:
        """What the texts on the screen belong to."""
        view = self.view
        return (
            view.split,
            view.read.step if view.read else -1,
            view.group.id if view.group else "",
        )

    @property
    def _ascii(self) -> bool:
        return bool(getattr(self.app, "ascii_only", False))

    def _look(self) -> None:
        """Show another group or answer, and read what is not read yet."""
        if self.texts.place != self._place:
            self._read_texts()
        self._show()

    def _show(self, *, keep_place: bool = False) -> None:
        view = self.view
        self.query_one(RolloutHead).show(view, self._note)
        self.query_one(AnswerList).show(view)
        known = self.texts.place == self._place
        prompt = self.texts.prompt if known else None
        question = view.group.question_id if view.group else ""
        self.query_one(PromptPanel).show(prompt, self._frame, question)
        self._show_answer("#answer", view.answer, view.rival, known, keep_place)
        self._show_answer("#rival", view.rival, view.answer, known, keep_place)
        formula = self.store.estimator.formula.partition(" within")[0]
        self.query_one(AnswerList).border_subtitle = f"adv = {formula}" if _is_train(view) else ""
        trend = self.query_one(PromptTrend)
        self.set_class(view.visits is not None, "-following")
        trend.set_class(view.visits is not None, "-open")
        hint = "" if self._note.startswith("looked") else "it was asked in this step only, so far"
        trend.show(view.visits or (), view.read.step if view.read else 0, hint or "looking ...")

    def _show_answer(
        self, where: str, answer: Answer | None, rival: Answer | None, known: bool, keep: bool
    ) -> None:
        box, group = self.query_one(where, ScrollText), self.view.group
        if answer is None or group is None:
            box.border_title = ""
            box.show(lambda width: [])
            return
        box.border_title = self._title(where, answer)
        pair = (answer.rollout, rival.rollout) if rival else None
        pieces = self.texts.diffs.get(pair) if self._diff and known and pair else None
        if self._diff and known and pair and pieces is None and where == "#answer":
            self._compare(pair)
        box.border_subtitle = f"compared with answer {pair[1]}" if pieces and pair else ""
        shown = Shown(
            answer=answer,
            group=group,
            text=self.texts.texts.get(answer.rollout, "") if known else None,
            prompt=self.texts.prompt if known else "",
            whole=self.has_class("-reading"),
            pieces=pieces if where == "#answer" else None,
            weights=self.store.weights,
            formula=self.store.estimator.formula,
            query=self.sought,
            ascii_only=self._ascii,
            colourless=self.app.no_color,
        )

        def layout(width: int) -> list[Row]:
            return answer_rows(shown, width)

        box.show(layout, keep_place=keep)

    def _title(self, where: str, answer: Answer) -> str:
        view, group = self.view, self.view.group
        mark = mark_of(answer, group, self._ascii)[0].strip() if group else ""
        title = f"answer {answer.rollout} {mark}".rstrip()
        if where != "#answer":
            return title
        return f"{title} · {view.answers.index(answer) + 1} of {len(view.answers)}"

    # --- keys

    def action_answer(self, by: int) -> None:
        if self.has_class("-reading"):
            self.query_one("#answer", ScrollText).move(by)
            return
        self.view = self.view.moved(by)
        self._look()

    def action_group(self, by: int) -> None:
        self._leave_prompt()
        self.view = self.view.to_group(by)
        self._look()

    def action_step(self, by: int) -> None:
        if (place := self.view.step_beside(by)) is not None:
            self._load(self.view.split, *place)

    def action_newest(self) -> None:
        if self.view.steps:
            self._leave_prompt()
            self._load(self.view.split, self.view.steps[-1])

    def action_validation(self) -> None:
        """The other kind of rollouts, near the step that is shown."""
        self._leave_prompt()
        self._first_step = self.view.read.step if self.view.read else None
        split: Split = "train" if self.view.split == "val" else "val"
        self.view = RolloutView(split, sort=self.view.sort, only=self.view.only)
        self._note = ""
        self._show()
        self._poll()

    def action_sort(self) -> None:
        self.view = self.view.sorted_next()
        self._look()

    def action_hit(self, by: int) -> None:
        self.view = self.view.to_hit(by)
        self._look()

    def action_show_diff(self) -> None:
        self._diff = not self._diff
        self._show(keep_place=True)

    def action_follow_prompt(self) -> None:
        if self.view.visits is not None:
            self._leave_prompt()
        elif self.texts.place == self._place and self.texts.prompt:
            self.view = replace(self.view, visits=())
            self._note = "looked into no step yet"
            self._follow(self.texts.prompt, self.view.split, len(self.view.steps))
        self._show(keep_place=True)

    def action_read(self) -> None:
        self.toggle_class("-reading")
        self._show()

    def action_scroll_text(self, pages: int) -> None:
        box = self.query_one("#answer", ScrollText)
        box.move(pages * max(1, box.size.height - 2))

    def action_filter(self) -> None:
        self._ask("filter", self.view.only.text, _FILTER_HINT)

    def action_search(self) -> None:
        self._ask("search", self.sought, "text in the answers of this step")

    def action_back(self) -> None:
        """Out of the nearest thing: the question, the search, the prompt, the full text, here."""
        if self._asking:
            self._close_question()
        elif self.sought:
            self.sought, self._note = "", ""
            self.workers.cancel_group(self, "search")
            self.view = replace(self.view, hits=frozenset())
            self._show(keep_place=True)
        elif self.view.visits is not None:
            self._leave_prompt()
            self._show(keep_place=True)
        elif self.has_class("-reading"):
            self.action_read()
        else:
            self.app.pop_screen()

    # --- asking

    def _ask(self, what: str, text: str, hint: str) -> None:
        self._asking = what
        field = self.query_one(Input)
        field.placeholder, field.value = f"{what}: {hint}", text
        field.add_class("-open")
        field.focus()

    def _close_question(self) -> None:
        self._asking = ""
        self.query_one(Input).remove_class("-open")
        self.set_focus(None)

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        if self._asking == "filter":
            try:
                self.view = replace(self.view, only=Filter.parse(event.value), rollout=None)
            except UsageError as error:
                self.notify(str(error), severity="error", markup=False)
                return
        else:
            self.sought, self._note = event.value.strip(), ""
            self.view = replace(self.view, hits=frozenset())
            if self.sought:
                self._search(self.sought)
        self._close_question()
        self._look()

    def _leave_prompt(self) -> None:
        self.workers.cancel_group(self, "follow")
        self.view, self._note = replace(self.view, visits=None), ""


def _is_train(view: RolloutView) -> bool:
    return view.split == "train" and view.read is not None and view.read.dumped
