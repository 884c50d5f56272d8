"""The parts of the rollout screen that are drawn: head, prompt, list of answers, trend."""

from __future__ import annotations

import numpy as np
from textual.content import Content

from engine.history.rollouts import Visit
from grubrics_tui.drawing.plot import render
from grubrics_tui.drawing.rollouts import group_row, list_head, list_row, widest
from grubrics_tui.drawing.spans import Row, Span, justify, width_of
from grubrics_tui.drawing.values import Line, Marks, Plot
from grubrics_tui.drawing.view import View
from grubrics_tui.drawing.wrap import clipped, wrapped
from grubrics_tui.model.rollout_view import RolloutView
from grubrics_tui.text.formats import fixed
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.widgets.span_widget import Drawn


class RolloutHead(Drawn):
    """Which run, step and group; then the group in numbers."""

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
        place = self._place()
        room = width - sum(len(span.text) for span in place) - 2
        title = [
            Span(clipped(self._run_id, max(8, room - 11)), bold=True),
            Span("  rollouts", "quiet"),
        ]
        group = view.group
        facts = group_row(group, view.answers) if group else [Span(self._nothing(), "quiet")]
        if view.read is not None and view.read.groups and not view.read.dumped:
            facts.append(Span("   not dumped by verl yet: no advantages", "warning"))
        return [justify(title, place, width), self._beside(facts, width)]

    def _beside(self, facts: Row, width: int) -> Row:
        """What was asked for beside the facts; instead of them where only one has room."""
        view = self._view
        sort = [Span("sort ", "quiet"), Span(view.sort, "primary")]
        only = [Span("filter ", "quiet"), Span(clean_text(view.only.text), "mark")]
        note = [Span(clean_text(self._note), "mark")]
        told = self._note and not (view.read is None and self._note == self._nothing())
        asked = [*([only] if view.only.text else []), *([note] if told else [])]
        for parts in ([sort, *asked], asked):
            right = [span for part in parts for span in (Span("   "), *part)][1:]
            if width_of(facts) + width_of(right) + 2 <= width:
                return justify(facts, right, width)
        return [span for part in asked for span in (*part, Span("   "))] or facts

    def _place(self) -> Row:
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

    def _nothing(self) -> str:
        view = self._view
        if view.read is None:
            return "reading the rollouts ..." if view.steps or not self._note else self._note
        return "no answer of this step passes the filter" if view.only.text else "no answers"


class PromptPanel(Drawn):
    """The end of the prompt, which is where the question stands."""

    DEFAULT_CSS = """
    PromptPanel {
        height: 6; margin: 0 1; padding: 0 1;
        border: round $line; border-title-color: $quiet; border-subtitle-color: $quiet;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def show(self, prompt: str | None, frame: str, question: str = "") -> None:
        """``frame`` are the lines that every prompt of the step ends with.

        ``prompt`` is None while it is read and empty where no file has it.
        """
        self.border_subtitle = Content(clean_text(f"question {question}" if question else ""))
        if prompt is None:
            return
        text = prompt.rstrip().removesuffix(frame.rstrip()).rstrip() or prompt
        self._text = clean_text("\n".join(line for line in text.splitlines() if line.strip()))
        self.redraw("the dump of this step, which has the prompt, is not written yet")

    def draw(self, width: int, height: int) -> list[Row]:
        if not self._text:
            return []
        # What does not fit lies before it: no more than the end has to be broken into rows.
        end = self._text[-(width * (height + 1)) :]
        rows = wrapped([Span(end, "foreground")], width)
        cut = len(rows) > height or len(end) < len(self._text)
        rows = rows[-height:]
        if cut and rows:
            rows[0] = [Span("… ", "axis"), *([Span(clipped(_text_of(rows[0]), width - 2))])]
        return rows


class AnswerList(Drawn):
    """The answers of a group; the chosen one stays in sight."""

    DEFAULT_CSS = """
    AnswerList {
        width: 44; padding: 0 1; height: 1fr;
        border: round $line; border-title-color: $quiet; border-subtitle-color: $quiet;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._view = RolloutView()
        self._top = 0

    def show(self, view: RolloutView) -> None:
        self._view = view
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        view, group, answer = self._view, self._view.group, self._view.answer
        if group is None or answer is None or height < 2:
            return []
        answers, room = view.answers, height - 1
        here, most = answers.index(answer), widest(group.answers)
        self._top = max(min(self._top, here, max(0, len(answers) - room)), here - room + 1)
        return [list_head(width)] + [
            list_row(one, group, width, widest=most, chosen=one is answer,
                     hit=(group.id, one.rollout) in view.hits, ascii_only=self.ascii_only)
            for one in answers[self._top : self._top + room]
        ]  # fmt: skip


class PromptTrend(Drawn):
    """One prompt over the steps that asked it: mean and best reward."""

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
        here = next((visit for visit in visits if visit.step == step), None)
        dot = "o" if self.ascii_only else "◆"
        self.border_title = f"this prompt across steps: line mean, {dot} best"
        self.border_subtitle = (
            f"step {step}: mean {fixed(here.mean, 3)}, best {fixed(here.best, 3)}" if here else ""
        )
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


def _text_of(row: Row) -> str:
    return "".join(span.text for span in row)
