"""The rollouts of a run: groups of a step, rewards, and the judge against the gold scores."""

from __future__ import annotations

from dataclasses import replace

from textual import events, on
from textual.app import ComposeResult
from textual.widgets import Input

from engine.base.errors import UsageError
from engine.run.history.reward_records import Split
from engine.run.history.rollout_query import Filter, numbers_of
from engine.run.history.rollouts import StepRollouts, Visit
from engine.run.run import Run
from grubrics_tui.model.rollout_view import GroupKey, GroupTexts, Hit, Pair, RolloutView
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.screens.rollouts.body import RolloutBody, RolloutBox, RolloutList, Scene
from grubrics_tui.screens.rollouts.reader import RolloutReader, RolloutSearch, SearchRequest, Target
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.word_diff import Piece
from grubrics_tui.widgets.key_footer import KeyFooter

_BESIDE = 100
"""The width from which two rollouts are shown beside each other."""
_WIDTHS = [(0, "-narrow"), (_BESIDE, "-wide"), (180, "-pair")]
_HEIGHTS = [(0, "-tiny"), (16, "-short"), (32, "-tall")]
_FILTER_HINT = "score<0.5  length>1000  advantage>0  alignment>=0.9  error  flat  best  untrained"


class RolloutsScreen(CockpitScreen):
    """The position is one value, ``view``: keys replace it, and ``show`` draws it."""

    BINDINGS = bindings("rollouts")
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = _WIDTHS
    VERTICAL_BREAKPOINTS = _HEIGHTS

    DEFAULT_CSS = """
    RolloutsScreen {
        /* A margin would make what is above it narrower while it is open. */
        Input, Input:focus {
            display: none; height: 1; border: none; padding: 0 2; background: $panel;
        }
        Input.-open, Input.-open:focus { display: block; }
        &.-pair #rival, &.-wide.-diff #rival { display: block; }
        &.-pair RolloutList { width: 48; }
        &.-wide.-diff RolloutList { display: none; }
        &.-narrow {
            #rollouts { layout: vertical; }
            RolloutList { width: 1fr; height: 1; border: none; padding: 0; }
        }
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
            RolloutList, PromptPanel, PromptTrend, PromptTrend.-open, #rival { display: none; }
        }
    }
    """

    def __init__(
        self, run: Run, step: int | None = None, group: str = "", rollout: int | None = None
    ) -> None:
        super().__init__()
        self.run = run
        self.view = RolloutView()
        self.texts = GroupTexts()
        self.reader = RolloutReader(self, self, run, lambda: self.view)
        self.search = RolloutSearch(self.reader, self._say)
        self._target: Target | None = None
        self._first_step, self._first_rollout = step, (group, rollout)
        self._note, self._prompt_suffix, self._asking = "", "", ""
        self._shows_diff = self._follows = False

    def compose(self) -> ComposeResult:
        yield RolloutBody(self.run.id)
        yield Input(id="ask")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.reader.start()

    def on_unmount(self) -> None:
        self.reader.close()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.show(keep_scroll=True)

    def take_steps(self, split: Split, steps: tuple[int, ...]) -> None:
        if split != self.view.split:
            return
        self.view = replace(self.view, steps=steps)
        if not steps:
            kind = "validation" if split == "val" else "training"
            self._note = f"no {kind} rollouts in {self.run.path} yet"
        elif (target := self._step_to_load()) is not None:
            self._load(target)
        self.show()

    def _step_to_load(self) -> Target | None:
        """The step that was asked for, or a step that is not complete yet."""
        view = self.view
        if self._target is not None:
            return self._target
        if view.read is None:
            wanted = view.steps[-1] if self._first_step is None else self._first_step
            nearest = min(view.steps, key=lambda step: abs(step - wanted))
            group, rollout = self._first_rollout if nearest == wanted else ("", None)
            return Target(view.split, nearest, group, rollout)
        return None if view.read.dumped else Target(view.split, view.read.step)

    def _load(self, target: Target) -> None:
        self._target = target
        self.reader.load(target)

    def take_step(self, target: Target, rollouts: StepRollouts, suffix: str) -> None:
        before = self._group_key
        if target != self._target:
            return  # Another step was asked for since.
        self._target = None
        if rollouts == self.view.read and not target.group:
            return
        self._prompt_suffix = suffix
        view = replace(self.view, group_id=target.group or self.view.group_id)
        self.view = view.loaded(rollouts)
        if target.rollout is not None:
            self.view = replace(self.view, rollout=target.rollout)
        if before[:2] != self._group_key[:2]:
            self._note = ""
            if self.search.text:
                self.search.search_step(self.view)
        if before == self._group_key:
            self._read_texts()
        self._show_group()

    def report_failure(self, target: Target, reason: str) -> None:
        if target == self._target:
            self._target = None
            self._note = f"cannot read step {target.step}: {reason}"
            self.show(keep_scroll=True)

    def take_texts(self, texts: GroupTexts) -> None:
        if texts.key == self._group_key:
            self.texts = texts
            self.show()

    def take_diff(self, key: GroupKey, pair: Pair, pieces: tuple[Piece, ...]) -> None:
        if key == self.texts.key:
            diffs = {**self.texts.diffs, pair: pieces}
            self.texts = replace(self.texts, diffs=diffs)
            self.show(keep_scroll=True)

    def take_visits(self, visits: tuple[Visit, ...], done: int, total: int) -> None:
        if self.view.visits is None:
            return
        self._follows = done < total
        self._note = "" if not self._follows else f"searched {done} of {total} steps"
        self.view = replace(self.view, visits=visits)
        self.show(keep_scroll=True)

    def take_hits(
        self, request: SearchRequest, hits: frozenset[Hit], done: int, total: int
    ) -> None:
        if (view := self.search.take_hits(request, hits, done, total, self.view)) is not None:
            self._go_to(view)

    def take_other_steps(
        self, request: SearchRequest, target: Target | None, done: int, total: int
    ) -> None:
        result = self.search.take_other_steps(request, target, done, total, self.view)
        if isinstance(result, Target):
            self._load(result)
        elif result is not None:
            self._go_to(result)

    @property
    def _group_key(self) -> GroupKey:
        """The group that the texts on the screen belong to."""
        view = self.view
        return (
            view.split,
            view.read.step if view.read else -1,
            view.group.id if view.group else "",
        )

    def _go_to(self, view: RolloutView) -> None:
        """Show ``view``; the scroll position stays while the rollout is the same."""
        before, self.view = self.view, view
        if (before.group_id, before.rollout) != (view.group_id, view.rollout):
            self._show_group()
        else:
            self.show(keep_scroll=True)

    def _show_group(self) -> None:
        """Show the group and rollout of the view, and read its texts where they are missing."""
        if self.texts.key != self._group_key:
            self._read_texts()
        self.show()

    def _say(self, note: str) -> None:
        self._note = note

    def _read_texts(self) -> None:
        if (group := self.view.group) is not None:
            self.reader.read_texts(group, self._group_key)

    def show(self, *, keep_scroll: bool = False) -> None:
        view, has_texts = self.view, self.texts.key == self._group_key
        pair: Pair | None = None
        if has_texts and self._shows_diff and view.selected and view.rival:
            pair = view.selected.number, view.rival.number
            if pair not in self.texts.diffs:
                self.reader.diff(self.texts, pair)
        self.set_class(view.visits is not None, "-following")
        self.set_class(self._shows_diff, "-diff")
        scene = Scene(
            view,
            texts=self.texts if has_texts else None,
            prompt_suffix=self._prompt_suffix,
            note=self._note,
            query=self.search.text,
            whole=self.has_class("-reading"),
            follows=self._follows,
            pair=pair,
            beside=self.app.size.width >= _BESIDE,
            weights=self.reader.store.weights,
            formula=view.read.formula if view.read else "",
        )
        self._body.show(scene, keep_scroll=keep_scroll)

    @property
    def _body(self) -> RolloutBody:
        return self.query_one(RolloutBody)

    def action_answer(self, count: int) -> None:
        if self.has_class("-reading"):
            self._body.text_box.move(count)
            return
        self.view = self.view.moved(count)
        self._show_group()

    @on(RolloutList.Moved)
    def _select_clicked(self) -> None:
        clicked = self.query_one(RolloutList).selected
        if clicked != self.view.selected and clicked in self.view.rollouts:
            rollouts = self.view.rollouts
            self.action_answer(rollouts.index(clicked) - rollouts.index(self.view.selected))

    def action_rival(self, count: int) -> None:
        self.view = self.view.rival_moved(count)
        self._shows_diff = True
        self.show()

    def action_group(self, count: int) -> None:
        self._leave_prompt()
        self.view = self.view.to_group(count)
        self._show_group()

    def action_step(self, count: int) -> None:
        if (step := self.view.step_beside(count)) is not None:
            self._go(Target(self.view.split, *step))

    def action_newest(self) -> None:
        if self.view.steps:
            self._leave_prompt()
            self._go(Target(self.view.split, self.view.steps[-1]))

    def action_validation(self) -> None:
        """The other kind of rollouts, near the step that is shown."""
        self._leave_prompt()
        self.search.stop_other_steps()
        self._first_step = self.view.read.step if self.view.read else None
        self._first_rollout = ("", None)
        split: Split = "train" if self.view.split == "val" else "val"
        self.view = RolloutView(split, sort=self.view.sort, only=self.view.only)
        self._target, self._note = None, ""
        self.show()
        self.reader.list_steps()

    def action_sort(self) -> None:
        self.view = self.view.sorted_next()
        self._show_group()

    def action_show_diff(self) -> None:
        self._shows_diff = not self._shows_diff
        self.show(keep_scroll=True)

    def action_follow_prompt(self) -> None:
        if self.view.visits is not None:
            self._leave_prompt()
        elif self.texts.key == self._group_key and self.texts.prompt:
            self.view, self._follows = replace(self.view, visits=()), True
            self._note = f"searched 0 of {len(self.view.steps)} steps"
            self.reader.follow_prompt(self.texts.prompt, self.view.split, len(self.view.steps))
        self.show(keep_scroll=True)

    def action_hit(self, way: int) -> None:
        """Go to the next rollout that contains the text: in this step, then in others."""
        self._go_to(self.search.next_hit(self.view, way))

    def action_read(self) -> None:
        self.toggle_class("-reading")
        self.show()

    def action_scroll_text(self, pages: int) -> None:
        """Both texts of a diff scroll together."""
        for box in self.query(RolloutBox):
            box.move(pages * max(1, self._body.text_box.size.height - 2))

    def action_filter(self) -> None:
        self._ask("filter", self.view.only.text, _FILTER_HINT)

    def action_search(self) -> None:
        self._ask(
            "search",
            self.search.text,
            "text in the responses; n and N: next and previous, also in other steps",
        )

    def action_back(self) -> None:
        """Close the innermost of: input, search, followed prompt, full text, diff, filter; else
        the screen."""
        if self._asking:
            self._close_question()
        elif self.search.stop_other_steps():
            self.show(keep_scroll=True)
        elif self.search.text:
            self.view = self.search.start("", self.view)
            self.show(keep_scroll=True)
        elif self.view.visits is not None:
            self._leave_prompt()
            self.show(keep_scroll=True)
        elif self.has_class("-reading"):
            self.action_read()
        elif self._shows_diff and self.view.rival is not None:
            self.action_show_diff()
        elif self.view.only.text:
            self.view = replace(self.view, only=Filter.parse(""), rollout=None)
            self._show_group()
        else:
            self.app.pop_screen()

    def _ask(self, purpose: str, text: str, hint: str) -> None:
        self._asking = purpose
        field = self.query_one(Input)
        field.placeholder, field.value = f"{purpose}: {hint}", text
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
                groups = self.view.read.groups if self.view.read else ()
                only = Filter.parse(event.value, numbers_of(groups))
                self.view = replace(self.view, only=only, rollout=None)
            except UsageError as error:
                self.notify(str(error), severity="error", markup=False)
                return
        else:
            self.view = self.search.start(event.value.strip(), self.view)
        self._close_question()
        self._show_group()

    def _go(self, target: Target) -> None:
        """Load a step that the user chose; ends a search of other steps."""
        self.search.stop_other_steps()
        self._load(target)

    def _leave_prompt(self) -> None:
        self.reader.cancel_follow_prompt()
        self.view, self._note = replace(self.view, visits=None), ""
