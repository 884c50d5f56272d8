"""A judge on the loopback that really scores, and that falls ill when it is told to."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from engine.reward.judge.offline import answer_score
from engine.tasks.rubrics import parse_rubric
from tests.engine.reward.judge.server import JudgeServer, Reply
from tests.loopback import serving

KEY = "the-right-key"
_ANSWER = re.compile(r"--- Answer (a\d+) ---\n(.*?)(?=\n\n--- )", re.DOTALL)
_CHARS_A_TOKEN = 3


@dataclass(frozen=True)
class Call:
    """One request as a mood sees it. ``at_once`` counts the calls in flight, this one included."""

    request: dict[str, Any]
    key: str
    at_once: int


Mood = Callable[[Call], Reply]


def honest(call: Call) -> Reply:
    """Scores as the offline judge does, and takes a moment for it."""
    text = call.request["messages"][-1]["content"]
    items = parse_rubric(text.rpartition("--- Rubric ---\n")[2])
    scores = [
        {"answer_id": name, "total_score": answer_score(answer, items)}
        for name, answer in _ANSWER.findall(text)
    ]
    return Reply(content=json.dumps({"evaluations": scores}), delay_s=0.05)


def keyed(call: Call) -> Reply:
    """Refuses every key but its own."""
    return honest(call) if call.key == KEY else refusal(401, "invalid_api_key")


def busy(call: Call) -> Reply:
    """Serves six calls at once and refuses the others for now."""
    if call.at_once > 6:
        return replace(refusal(429, "rate_limit_exceeded"), headers={"Retry-After": "0.3"})
    return replace(honest(call), delay_s=0.2)


def slow(call: Call) -> Reply:
    return replace(honest(call), delay_s=1.4)


def unknown_model(call: Call) -> Reply:
    """Knows one model, ``judge``."""
    known = call.request["model"] == "judge"
    return honest(call) if known else refusal(404, "model_not_found")


def curt(call: Call) -> Reply:
    """Stops where ``max_completion_tokens`` ends, as every model does."""
    whole = honest(call).content or ""
    longest = _CHARS_A_TOKEN * int(call.request["max_completion_tokens"])
    if len(whole) <= longest:
        return Reply(content=whole)
    return Reply(content=whole[:longest], finish_reason="length")


def broken(call: Call) -> Reply:
    """The server behind the address has no healthy worker."""
    return refusal(503, "service_unavailable")


def chatty(call: Call) -> Reply:
    """Praises in prose where scores were asked for."""
    return Reply(content="What a fine set of answers! Each of them has its merits.")


def indifferent(call: Call) -> Reply:
    """The same score for every answer, whatever the rubric says."""
    return Reply(content=re.sub(r'"total_score": [\d.]+', '"total_score": 0.5', _content(call)))


def _content(call: Call) -> str:
    return honest(call).content or ""


def refusal(status: int, code: str) -> Reply:
    return Reply(status, body={"error": {"message": f"refused: {code}", "code": code}})


class MoodyJudge(JudgeServer):
    """Answers every request in its ``mood``, which may change while it runs."""

    def __init__(self, mood: Mood) -> None:
        super().__init__([], Reply())
        self.mood = mood
        self.first_call: float | None = None
        """Unix seconds."""

    @property
    def ill_since(self) -> float | None:
        """When the first caller met a mood that is not ``honest``; None: nobody has."""
        return None if self.mood is honest else self.first_call

    def enter(self, path: str, request: dict[str, Any], key: str) -> Reply:
        super().enter(path, request, key)
        with self.lock:
            self.first_call = self.first_call or time.time()
            call = Call(request, key, self.in_flight)
        return self.mood(call)


def moody_judge(mood: Mood) -> AbstractContextManager[MoodyJudge]:
    """A running judge on a free port."""
    return serving(MoodyJudge(mood))
