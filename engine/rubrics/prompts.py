"""The prompt that asks for a rubric, the same for SFT and GRPO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Message = dict[str, str]

EXCERPT_CHARS = 500
HIGH_LABEL = "High-quality answer excerpt:"
LOW_LABEL = "Low-quality answer excerpt:"

SYSTEM = (
    "You are a rubric writer who prepares the grading of answers to a question. "
    "Write one item per line in the form `Points: <number>, Item: <text>`. "
    "The points must sum to exactly 10.0. "
    "Each item must be actionable, weighted by importance, "
    "and able to separate good answers from poor ones."
)
_EXCERPTS_INTRO = "Use these excerpts to see what separates good answers from poor ones.\n"


@dataclass(frozen=True)
class Excerpts:
    """The beginnings of the answers with the highest and the lowest gold score."""

    high: str
    low: str


def rubric_messages(
    question: str, context: str = "", excerpts: Excerpts | None = None
) -> list[Message]:
    """The two chat messages (system, user) that ask for a rubric for ``question``."""
    blocks = [f"CONTEXT:\n{context}\n"] if context else []
    if excerpts is not None:
        blocks.append(_EXCERPTS_INTRO)
        blocks.append(f"{HIGH_LABEL}\n{excerpts.high}\n")
        blocks.append(f"{LOW_LABEL}\n{excerpts.low}\n")
    blocks += [f"QUESTION:\n{question}\n", "YOUR RUBRIC:"]
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "\n".join(blocks)},
    ]


def contrastive_excerpts(answers: Sequence[str], gold: Sequence[float]) -> Excerpts | None:
    """Excerpts of the best and the worst answer, the first of each on ties.

    None when the gold scores do not match the answers or do not differ.
    """
    if len(answers) != len(gold) or len(set(gold)) < 2:
        return None
    best = answers[gold.index(max(gold))]
    worst = answers[gold.index(min(gold))]
    return Excerpts(best[:EXCERPT_CHARS], worst[:EXCERPT_CHARS])


def contrastive_enabled(env: Mapping[str, str]) -> bool:
    """Whether prompts carry excerpts: yes unless USE_CONTRASTIVE is set to anything but 1."""
    return env.get("USE_CONTRASTIVE", "1").strip() == "1"
