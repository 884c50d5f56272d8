"""The operators that a workflow may call."""

from __future__ import annotations

from dataclasses import dataclass

from engine.tasks.workflows.tiers import DOMAINS, Domain


@dataclass(frozen=True)
class Operator:
    """``instruction`` is what the executor is told. Without one, no model is asked."""

    name: str
    parameters: tuple[str, ...]
    summary: str
    instruction: str | None = None
    domains: tuple[Domain, ...] = DOMAINS


OPERATORS = {
    operator.name: operator
    for operator in (
        Operator(
            "custom",
            ("input", "instruction"),
            "follow an instruction",
            "Follow the instruction for the input.",
        ),
        Operator(
            "answer_generate",
            ("input",),
            "answer step by step",
            "Think step by step. End with the answer alone in the last line.",
            ("math", "qa"),
        ),
        Operator(
            "programmer",
            ("problem", "instruction"),
            "write a Python program",
            "Write a Python program that solves the problem. Answer with its code only.",
            ("code",),
        ),
        Operator(
            "review",
            ("problem", "solution"),
            "say what is wrong with a solution, or ok",
            "Review the solution. Answer ok if it is right; otherwise say what is wrong.",
        ),
        Operator(
            "revise",
            ("problem", "solution", "feedback"),
            "correct a solution",
            "Correct the solution by the feedback. Answer with the new solution only.",
        ),
        Operator("sc_ensemble", ("solutions",), "the most frequent of a list of solutions"),
        Operator("test", ("solution",), "run the tests: passed or failed", domains=("code",)),
    )
}
