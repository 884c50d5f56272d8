"""The widgets of the rollouts screen, drawn from one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content

from engine.base.quantities import format_fixed
from engine.run.history.plot import Line, Marks, Plot
from engine.run.history.rollouts import Rollout, Visit
from grubrics_tui.drawing.plot import mark_glyph, render
from grubrics_tui.drawing.rollouts import (
    Shown,
    group_row,
    list_head,
    list_row,
    mark_of,
    rollout_rows,
    strip_row,
    widest,
)
from grubrics_tui.drawing.spans import Row, Span, clipped, justify, width_of, wrapped
from grubrics_tui.drawing.view import View
from grubrics_tui.model.rollout_view import GroupTexts, Pair, RolloutView
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.text.word_diff import Kind, Piece
from grubrics_tui.widgets.row_list import RowList
from grubrics_tui.widgets.scroll_text import ScrollText
from grubrics_tui.widgets.span_widget import SpanWidget


@dataclass(frozen=True)
class Scene:
    """``texts`` is None while those of the group are read; ``prompt_suffix`` is the text that all
    prompts of the step end with; ``pair`` are the two rollouts of the diff, if it is shown."""

    view: RolloutView
    texts: GroupTexts | None = None
    prompt_suffix: str = ""
    note: str = ""
    query: str = ""
    whole: bool = False
    follows: bool = False
    """Other steps are still being searched for the prompt."""
    pair: Pair | None = None
    beside: bool = False
    """Whether the rival is beside the selected rollout, so that each shows its own words."""
    weights: Mapping[str, float] | None = None
    formula: str = ""

    def shown(self, rollout: Rollout | None) -> Shown | None:
        group, texts = self.view.group, self.texts
        if rollout is None or group is None:
            return None
        return Shown(
            rollout=rollout,
            group=group,
            text=texts.texts.get(rollout.number, "") if texts else None,
            prompt=texts.prompt if texts else "",
            truth=texts.truth if texts else "",
            conversation=texts.conversations.get(rollout.number) if texts else None,
            whole=self.whole,
            weights=self.weights,
            formula=self.formula,
            query=self.query,
        )


class RolloutHead(SpanWidget):
    """The run, step and group, and below them the numbers of the group."""

    DEFAULT_CSS = "RolloutHead { height: 2; padding: 0 2; }"

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self._run_id = clean_text(run_id)
        self._view = RolloutView()
        self._note = ""

    def show(self, view: RolloutView, note: str = "") -> None:
        self._view, self._note = view, note
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        view = self._view
        position = self._position()
        room = width - sum(len(span.text) for span in position) - 2
        title = [
            Span(clipped(self._run_id, max(8, room - 11)), bold=True),
            Span("  rollouts", "quiet"),
        ]
        group = view.group
        facts = group_row(group, view.rollouts) if group else [Span(self._empty_text(), "quiet")]
        if view.read is not None and view.read.groups and not view.read.dumped:
            facts.append(Span("   no advantages before verl dumps the step", "warning"))
        return [justify(title, position, width), self._beside(facts, width)]

    def _beside(self, facts: Row, width: int) -> Row:
        """Sort, filter and status beside the facts; instead of them if only one fits."""
        view = self._view
        sort = [Span("sort ", "quiet"), Span(view.sort, "primary")]
        only = [Span("filter ", "quiet"), Span(clean_text(view.only.text), "mark")]
        note = [Span(clean_text(self._note), "mark")]
        shows_note = self._note and not (view.read is None and self._note == self._empty_text())
        status = [*([only] if view.only.text else []), *([note] if shows_note else [])]
        for parts in ([sort, *status], status):
            right = [span for part in parts for span in (Span("   "), *part)][1:]
            if width_of(facts) + width_of(right) + 2 <= width:
                return justify(facts, right, width)
        return [span for part in status for span in (*part, Span("   "))] or facts

    def _position(self) -> Row:
        view, read = self._view, self._view.read
        if read is None:
            return []
        kind = "validation at step " if read.split == "val" else "step "
        last = f" of {view.steps[-1]}" if view.steps else ""
        row = [Span(kind, "quiet"), Span(str(read.step), "primary", bold=True), Span(last, "quiet")]
        if view.groups:
            row += [Span("   group ", "quiet"), Span(str(view.group_number), "primary", bold=True),
                    Span(f" of {len(view.groups)}", "quiet")]  # fmt: skip
        if read.attempt > 1:
            row.append(Span(f"   attempt {read.attempt}", "quiet"))
        return row

    def _empty_text(self) -> str:
        view = self._view
        if view.read is None:
            return "reading rollouts ..." if view.steps or not self._note else self._note
        return "no rollouts match the filter" if view.only.text else "no rollouts"


class PromptPanel(SpanWidget):
    """The end of the prompt, which holds the question."""

    DEFAULT_CSS = """
    PromptPanel {
        height: 6; margin: 0 1; padding: 0 1;
        border: round $line; border-title-color: $quiet; border-subtitle-color: $quiet;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def show(self, prompt: str | None, suffix: str, question: str = "") -> None:
        """``suffix`` are the lines that every prompt of the step ends with.

        ``prompt`` is None while it is read, and empty if no file contains it.
        """
        self.border_subtitle = Content(clean_text(f"question {question}" if question else ""))
        if prompt is None:
            return
        text = prompt.rstrip().removesuffix(suffix.rstrip()).rstrip() or prompt
        self._text = clean_text("\n".join(line for line in text.splitlines() if line.strip()))
        self.redraw("the prompt is in the dump that verl writes at the end of the step")

    def draw(self, width: int, height: int) -> list[Row]:
        if not self._text:
            return []
        # Only the end is shown, so only the end is wrapped.
        end = self._text[-(width * (height + 1)) :]
        rows = wrapped([Span(end, "foreground")], width)
        cut = len(rows) > height or len(end) < len(self._text)
        rows = rows[-height:]
        if cut and rows:
            first = "".join(span.text for span in rows[0])
            rows[0] = [Span("… ", "axis"), *([Span(clipped(first, width - 2))])]
        return rows


class RolloutList(RowList[Rollout]):
    """The rollouts of a group, with the cursor on the selected one; in one row, all as a strip."""

    HEADS = 1

    DEFAULT_CSS = """
    RolloutList {
        width: 44; padding: 0 1;
        border: round $line; border-title-color: $quiet; border-subtitle-color: $quiet;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._view = RolloutView()

    def fill(self, view: RolloutView) -> None:
        self._view = view
        rollouts, selected = view.rollouts, view.selected
        self.show(rollouts, cursor=rollouts.index(selected) if selected else 0)

    def draw(self, width: int, height: int) -> list[Row]:
        if height == 1 and self._view.group and self.selected:
            group = self._view.group
            return [strip_row(self.items, group, self.selected, width, self.ascii_only)]
        return super().draw(width, height)

    def draw_items(self, shown: range, width: int) -> list[Row]:
        group, hits = self._view.group, self._view.hits
        assert group is not None
        largest = widest(group.rollouts)
        return [list_head(width)] + [
            list_row(self.items[n], group, width, widest=largest, chosen=n == self.cursor,
                     hit=(group.id, self.items[n].number) in hits, ascii_only=self.ascii_only)
            for n in shown
        ]  # fmt: skip


class PromptTrend(SpanWidget):
    """Mean and best reward of one prompt over the steps with this prompt."""

    DEFAULT_CSS = """
    PromptTrend {
        height: 9; margin: 0 1; padding: 0 1; display: none;
        border: round $line; border-title-color: $quiet; border-subtitle-color: $quiet;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._visits: tuple[Visit, ...] = ()
        self._step = 0

    def show(self, visits: tuple[Visit, ...], step: int, hint: str = "") -> None:
        self._visits, self._step = visits, step
        current = next((visit for visit in visits if visit.step == step), None)
        glyph = mark_glyph(ascii_only=self.ascii_only)
        self.border_title = f"this prompt across steps: line mean, {glyph} best"
        self.border_subtitle = ""
        if current:
            mean, best = format_fixed(current.mean), format_fixed(current.best)
            self.border_subtitle = f"step {step}: mean {mean}, best {best}"
        self.redraw(hint)

    def draw(self, width: int, height: int) -> list[Row]:
        if len({visit.step for visit in self._visits}) < 2:
            return []
        steps = np.array([float(visit.step) for visit in self._visits])
        mean, best = (
            np.array([np.nan if value is None else value for value in values])
            for values in (
                [visit.mean for visit in self._visits], [visit.best for visit in self._visits]
            )
        )  # fmt: skip
        plot = Plot((Line(steps, mean, "mean"),), (Marks(steps, best, "best"),))
        return render(plot, View(cursor=float(self._step)), width, height,
                      ascii_only=self.ascii_only)  # fmt: skip


class RolloutBox(ScrollText):
    """The text of one rollout with its numbers, search hits and differences marked."""

    def show_rollout(
        self,
        shown: Shown | None,
        *,
        position: str = "",
        note: str = "",
        keep_scroll: bool = False,
    ) -> None:
        """``position`` is e.g. " · 2 of 8"; ``note`` is in the lower edge of the frame."""
        if shown is None:
            self.border_title, self.border_subtitle = "", ""
            self.show(lambda width: [])
            return
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        drawn = replace(shown, ascii_only=ascii_only, colorless=self.app.no_color)
        mark = mark_of(drawn.rollout, drawn.group, ascii_only)[0].strip()
        self.border_title = f"rollout {drawn.rollout.number} {mark}".rstrip() + position
        self.border_subtitle = note
        self.show(lambda width: rollout_rows(drawn, width), keep_scroll=keep_scroll)


class RolloutBody(Vertical):
    """Head, prompt, list of rollouts, the selected one and its rival, trend of the prompt."""

    DEFAULT_CSS = """
    RolloutBody {
        #rollouts { height: 1fr; margin: 0 1; }
        #rival { display: none; }
        PromptTrend.-open { display: block; }
    }
    """

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self._run_id = run_id

    def compose(self) -> ComposeResult:
        yield RolloutHead(self._run_id)
        yield PromptPanel()
        with Horizontal(id="rollouts"):
            yield RolloutList()
            yield RolloutBox(id="selected", classes="-current")
            yield RolloutBox(id="rival")
        yield PromptTrend()

    def on_mount(self) -> None:
        self.query_one(RolloutList).border_title = "Rollouts"
        self.query_one(PromptPanel).border_title = "Prompt"

    @property
    def text_box(self) -> RolloutBox:
        """The box of the selected rollout."""
        return self.query_one("#selected", RolloutBox)

    def show(self, scene: Scene, *, keep_scroll: bool = False) -> None:
        view = scene.view
        self.query_one(RolloutHead).show(view, scene.note)
        rollouts = self.query_one(RolloutList)
        rollouts.fill(view)
        has_advantages = view.split == "train" and view.read is not None and view.read.dumped
        formula = scene.formula.partition(" within")[0]
        rollouts.border_subtitle = f"adv = {formula}" if has_advantages else ""
        question = view.group.question_id if view.group else ""
        prompt = scene.texts.prompt if scene.texts else None
        self.query_one(PromptPanel).show(prompt, scene.prompt_suffix, question)
        self._show_texts(scene, keep_scroll)
        trend = self.query_one(PromptTrend)
        trend.set_class(view.visits is not None, "-open")
        hint = "searching ..." if scene.follows else "this step is the only one with this prompt"
        trend.show(view.visits or (), view.read.step if view.read else 0, hint)

    def _show_texts(self, scene: Scene, keep_scroll: bool) -> None:
        """Show the selected rollout and its rival, with their differences if they are asked for."""
        view, pair = scene.view, scene.pair
        shown, other = scene.shown(view.selected), scene.shown(view.rival)
        pieces = scene.texts.diffs.get(pair) if scene.texts and pair else None
        notes = ("", "")
        if shown and pieces and pair:
            notes = (f"diff against rollout {pair[1]}", "")
            shown = replace(shown, pieces=pieces)
        if shown and other and pieces and scene.beside:
            notes = ("j k other rollout", "J K other rollout")
            shown = replace(shown, pieces=_without("missing", pieces))
            other = replace(other, pieces=_without("added", pieces))
        self.text_box.show_rollout(
            shown, position=_position(view, view.selected), note=notes[0], keep_scroll=keep_scroll
        )
        self.query_one("#rival", RolloutBox).show_rollout(
            other, position=_position(view, view.rival), note=notes[1], keep_scroll=keep_scroll
        )


def _position(view: RolloutView, rollout: Rollout | None) -> str:
    """`` · 2 of 8`` for the second rollout of the list; nothing for one that a filter hides."""
    rollouts = view.rollouts
    return f" · {rollouts.index(rollout) + 1} of {len(rollouts)}" if rollout in rollouts else ""


def _without(kind: Kind, pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    return tuple(piece for piece in pieces if piece.kind != kind)
