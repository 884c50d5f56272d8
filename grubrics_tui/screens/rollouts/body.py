"""All that the rollout screen shows, drawn from one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from engine.history.rollouts import Answer
from grubrics_tui.drawing.rollout_layout import Shown
from grubrics_tui.model.rollout_texts import GroupTexts, Pair
from grubrics_tui.model.rollout_view import RolloutView
from grubrics_tui.screens.rollouts.answer_box import AnswerBox
from grubrics_tui.screens.rollouts.panels import AnswerList, PromptPanel, PromptTrend, RolloutHead


@dataclass(frozen=True)
class Scene:
    """``texts`` is None while those of the group are read; ``frame`` is what all prompts of the
    step end with; ``pair`` says what is compared with what, None: nothing."""

    view: RolloutView
    texts: GroupTexts | None = None
    frame: str = ""
    note: str = ""
    sought: str = ""
    whole: bool = False
    pair: Pair | None = None
    weights: Mapping[str, float] | None = None
    formula: str = ""

    def shown(self, answer: Answer | None) -> Shown | None:
        group, texts = self.view.group, self.texts
        if answer is None or group is None:
            return None
        return Shown(
            answer=answer,
            group=group,
            text=texts.texts.get(answer.rollout, "") if texts else None,
            prompt=texts.prompt if texts else "",
            truth=texts.truth if texts else "",
            whole=self.whole,
            weights=self.weights,
            formula=self.formula,
            query=self.sought,
        )


class RolloutBody(Vertical):
    """Head, prompt, the answers beside the chosen one and its rival, the prompt's course."""

    DEFAULT_CSS = """
    RolloutBody {
        #answers { height: 1fr; margin: 0 1; }
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
        with Horizontal(id="answers"):
            yield AnswerList()
            yield AnswerBox(id="answer", classes="-current")
            yield AnswerBox(id="rival")
        yield PromptTrend()

    def on_mount(self) -> None:
        self.query_one(AnswerList).border_title = "answers"
        self.query_one(PromptPanel).border_title = "prompt"

    @property
    def answer(self) -> AnswerBox:
        return self.query_one("#answer", AnswerBox)

    def show(self, scene: Scene, *, keep_place: bool = False) -> None:
        view = scene.view
        self.query_one(RolloutHead).show(view, scene.note)
        answers = self.query_one(AnswerList)
        answers.show(view)
        formula = scene.formula.partition(" within")[0]
        answers.border_subtitle = f"adv = {formula}" if _is_train(view) else ""
        question = view.group.question_id if view.group else ""
        prompt = scene.texts.prompt if scene.texts else None
        self.query_one(PromptPanel).show(prompt, scene.frame, question)
        self._show_answers(scene, keep_place)
        self._show_trend(scene)

    def _show_answers(self, scene: Scene, keep_place: bool) -> None:
        view, place = scene.view, ""
        if view.answer is not None:
            place = f" · {view.answers.index(view.answer) + 1} of {len(view.answers)}"
        shown, pair = scene.shown(view.answer), scene.pair
        if shown is not None and pair is not None and scene.texts is not None:
            shown = replace(shown, pieces=scene.texts.diffs.get(pair))
        rival = pair[1] if pair else None
        self.answer.tell(shown, place=place, rival=rival, keep_place=keep_place)
        beside = self.query_one("#rival", AnswerBox)
        beside.tell(scene.shown(view.rival), keep_place=keep_place)

    def _show_trend(self, scene: Scene) -> None:
        view, trend = scene.view, self.query_one(PromptTrend)
        trend.set_class(view.visits is not None, "-open")
        looking = scene.note.startswith("looked")
        hint = "looking ..." if looking else "it was asked in this step only, so far"
        trend.show(view.visits or (), view.read.step if view.read else 0, hint)


def _is_train(view: RolloutView) -> bool:
    return view.split == "train" and view.read is not None and view.read.dumped
