"""What the model answered: the groups of a step, why an answer won, whether the judge is right."""

from __future__ import annotations

from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.widgets import Footer, Input

from engine.base.errors import UsageError
from engine.history.reward_records import Split
from engine.history.rollout_query import Filter
from engine.runs.rundir import RunDir
from grubrics_tui.model.rollout_texts import GroupTexts, Pair, Place
from grubrics_tui.model.rollout_view import RolloutView
from grubrics_tui.screens.rollouts.body import RolloutBody, Scene
from grubrics_tui.screens.rollouts.reading import RolloutReading, Target
from grubrics_tui.screens.rollouts.search import RolloutSearching
from grubrics_tui.settings.actions import bindings

_WIDTHS = [(0, "-narrow"), (100, "-wide"), (180, "-pair")]
_HEIGHTS = [(0, "-tiny"), (16, "-short"), (32, "-tall")]
_FILTER_HINT = "score<0.5  length>1000  advantage>0  alignment>=0.9  error  flat  best  untrained"


class RolloutsScreen(RolloutSearching):
    """Where a person is, is one value (``view``); keys replace it and what is shown follows."""

    BINDINGS = bindings("rollouts")
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = _WIDTHS
    VERTICAL_BREAKPOINTS = _HEIGHTS

    DEFAULT_CSS = """
    RolloutsScreen {
        Input, Input:focus {
            display: none; height: 1; border: none; padding: 0 1; margin: 0 1; background: $panel;
        }
        Input.-open, Input.-open:focus { display: block; }
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

    def __init__(self, run: RunDir, step: int | None = None) -> None:
        super().__init__(run)
        self.texts = GroupTexts()
        self._target: Target | None = None
        self._first_step = step
        self._frame, self._asking = "", ""
        self._diff = False

    def compose(self) -> ComposeResult:
        yield RolloutBody(self.run.id)
        yield Input(id="ask")
        yield Footer(show_command_palette=False)

    # --- what was read

    @on(RolloutReading.Listed)
    def _list(self, message: RolloutReading.Listed) -> None:
        if message.split != self.view.split:
            return
        self.view = replace(self.view, steps=message.steps)
        if not message.steps:
            kind = "validation" if message.split == "val" else "training"
            self.note = f"no {kind} rollouts in {self.run.path} yet"
        elif (target := self._unsettled()) is not None:
            self.read_step(target)
        self.show()

    def _unsettled(self) -> Target | None:
        """What is still to be read: what was asked for, or else a step that goes on."""
        view = self.view
        if self._target is not None:
            return self._target
        if view.read is None:
            wanted = view.steps[-1] if self._first_step is None else self._first_step
            return Target(view.split, min(view.steps, key=lambda one: abs(one - wanted)))
        return None if view.read.dumped else Target(view.split, view.read.step)

    def read_step(self, target: Target) -> None:
        self._target = target
        self.wanted.ask(target)

    @on(RolloutReading.Loaded)
    def _take_step(self, message: RolloutReading.Loaded) -> None:
        target, before = message.target, self._place
        if target != self._target:
            return  # Something else was asked for since.
        self._target = None
        if message.read == self.view.read and not target.group:
            return
        self._frame = message.frame
        view = replace(self.view, group_id=target.group or self.view.group_id)
        self.view = view.loaded(message.read)
        if target.rollout is not None:
            self.view = replace(self.view, rollout=target.rollout)
        if before[:2] != self._place[:2]:
            self.note = ""
            if self.sought:
                self.search_step()
        if before == self._place:
            self._read_texts()
        self.look()

    @on(RolloutReading.Failed)
    def _fail(self, message: RolloutReading.Failed) -> None:
        if message.target == self._target:
            self._target = None
            self.note = f"step {message.target.step} could not be read: {message.why}"
            self.show(keep_place=True)

    @on(RolloutReading.TextsRead)
    def _take_texts(self, message: RolloutReading.TextsRead) -> None:
        if message.texts.place == self._place:
            self.texts = message.texts
            self.show()

    @on(RolloutReading.Compared)
    def _take_diff(self, message: RolloutReading.Compared) -> None:
        if message.place == self.texts.place:
            diffs = {**self.texts.diffs, message.pair: message.pieces}
            self.texts = replace(self.texts, diffs=diffs)
            self.show(keep_place=True)

    @on(RolloutReading.Followed)
    def _take_visits(self, message: RolloutReading.Followed) -> None:
        if self.view.visits is None:
            return
        done = message.done >= message.total
        self.note = "" if done else f"looked into {message.done} of {message.total} steps"
        self.view = replace(self.view, visits=message.visits)
        self.show(keep_place=True)

    # --- showing

    @property
    def _place(self) -> Place:
        """What the texts on the screen belong to."""
        view = self.view
        return (
            view.split,
            view.read.step if view.read else -1,
            view.group.id if view.group else "",
        )

    def look(self) -> None:
        """Show another group or answer, and read what is not read yet."""
        if self.texts.place != self._place:
            self._read_texts()
        self.show()

    def _read_texts(self) -> None:
        if (group := self.view.group) is not None:
            self.read_texts(group, self._place)

    def show(self, *, keep_place: bool = False) -> None:
        view, known = self.view, self.texts.place == self._place
        pair = self._pair if known and self._diff else None
        if pair is not None and pair not in self.texts.diffs:
            self.compare(self.texts, pair)
        self.set_class(view.visits is not None, "-following")
        scene = Scene(
            view,
            self.texts if known else None,
            self._frame,
            self.note,
            self.sought,
            self.has_class("-reading"),
            pair,
            self.store.weights,
            self.store.estimator.formula,
        )
        self._body.show(scene, keep_place=keep_place)

    @property
    def _pair(self) -> Pair | None:
        answer, rival = self.view.answer, self.view.rival
        return (answer.rollout, rival.rollout) if answer and rival else None

    @property
    def _body(self) -> RolloutBody:
        return self.query_one(RolloutBody)

    # --- keys

    def action_answer(self, by: int) -> None:
        if self.has_class("-reading"):
            self._body.answer.move(by)
            return
        self.view = self.view.moved(by)
        self.look()

    def action_group(self, by: int) -> None:
        self._leave_prompt()
        self.view = self.view.to_group(by)
        self.look()

    def action_step(self, by: int) -> None:
        if (place := self.view.step_beside(by)) is not None:
            self._go(Target(self.view.split, *place))

    def action_newest(self) -> None:
        if self.view.steps:
            self._leave_prompt()
            self._go(Target(self.view.split, self.view.steps[-1]))

    def action_validation(self) -> None:
        """The other kind of rollouts, near the step that is shown."""
        self._leave_prompt()
        self.stop_seeking()
        self._first_step = self.view.read.step if self.view.read else None
        split: Split = "train" if self.view.split == "val" else "val"
        self.view = RolloutView(split, sort=self.view.sort, only=self.view.only)
        self._target, self.note = None, ""
        self.show()
        self.look_now()

    def action_sort(self) -> None:
        self.view = self.view.sorted_next()
        self.look()

    def action_show_diff(self) -> None:
        self._diff = not self._diff
        self.show(keep_place=True)

    def action_follow_prompt(self) -> None:
        if self.view.visits is not None:
            self._leave_prompt()
        elif self.texts.place == self._place and self.texts.prompt:
            self.view = replace(self.view, visits=())
            self.note = "looked into no step yet"
            self.follow(self.texts.prompt, self.view.split, len(self.view.steps))
        self.show(keep_place=True)

    def action_read(self) -> None:
        self.toggle_class("-reading")
        self.show()

    def action_scroll_text(self, pages: int) -> None:
        box = self._body.answer
        box.move(pages * max(1, box.size.height - 2))

    def action_filter(self) -> None:
        self._ask("filter", self.view.only.text, _FILTER_HINT)

    def action_search(self) -> None:
        self._ask("search", self.sought, "text in the answers; n and N go on, to other steps too")

    def action_back(self) -> None:
        """Out of the nearest thing: the question, the search, the prompt, the full text, here."""
        if self._asking:
            self._close_question()
        elif self.stop_seeking():
            self.show(keep_place=True)
        elif self.sought:
            self.look_for("")
            self.show(keep_place=True)
        elif self.view.visits is not None:
            self._leave_prompt()
            self.show(keep_place=True)
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
            self.look_for(event.value.strip())
        self._close_question()
        self.look()

    def _go(self, target: Target) -> None:
        """To a step that a person chose: whatever was on its way to another one ends."""
        self.stop_seeking()
        self.read_step(target)

    def _leave_prompt(self) -> None:
        self.workers.cancel_group(self, "follow")
        self.view, self.note = replace(self.view, visits=None), ""
