"""A real HTTP server that speaks enough of the OpenAI protocol to be a judge."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import LoopbackServer, serving


def scores_of(first: float, second: float) -> str:
    """A judge's reply about two answers."""
    scores = {"a1": first, "a2": second}
    entries = [{"answer_id": name, "total_score": score} for name, score in scores.items()]
    return json.dumps({"evaluations": entries})


GOOD = scores_of(0.9, 0.1)
"""Read as a judge that knows what diabetes is: ``judge-test`` also asks in another order."""

PATIENCE_S = 30.0
"""Shorter than that of those who ask."""


@dataclass(frozen=True)
class Reply:
    """One answer of the server: a completion with ``content``, or ``body``, or ``raw`` bytes."""

    status: int = 200
    content: str | None = GOOD
    body: dict[str, Any] | None = None
    raw: bytes | None = None
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    crowd: int = 1
    """Nobody is answered before so many have asked at once."""
    finish_reason: str = "stop"


class JudgeServer(LoopbackServer):
    """Gives its ``replies`` in turn, then good ones; remembers requests and the busiest moment."""

    def __init__(self, replies: list[Reply], every: Reply) -> None:
        super().__init__(_Handler)
        self.replies = deque(replies)
        self.every = every
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.in_flight = 0
        self.busiest = 0
        self.lock = threading.Condition()

    def enter(self, path: str, request: dict[str, Any], key: str) -> Reply:
        """The answer to a request that was signed with ``key``."""
        with self.lock:
            self.paths.append(path)
            self.requests.append(request)
            self.in_flight += 1
            self.busiest = max(self.busiest, self.in_flight)
            self.lock.notify_all()
            return self.replies.popleft() if self.replies else self.every

    def await_crowd(self, size: int) -> None:
        with self.lock:
            self.lock.wait_for(lambda: self.busiest >= size, PATIENCE_S)

    def leave(self) -> None:
        with self.lock:
            self.in_flight -= 1


BY_LENGTH = "by length"
"""The content of a reply that scores the longest answer 1 and every other 0."""

TRIAL_SWAPPED = "--- Answer a1 ---\nA kind of weather."
"""How a call of ``judge-test`` begins its answers when the wrong one is first."""


class _Handler(BaseHTTPRequestHandler):
    server: JudgeServer

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        request = json.loads(self.rfile.read(length))
        reply = self.server.enter(self.path, request, key)
        self.server.await_crowd(reply.crowd)
        time.sleep(reply.delay_s)
        self.server.leave()
        payload = reply.raw or json.dumps(reply.body or _completion(reply, request)).encode()
        try:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def log_message(self, format: str, *args: Any) -> None:
        return None


def _scores_by_length(asked: str) -> str:
    blocks = asked.partition("--- Rubric ---")[0].split("--- Answer a")[1:]
    lengths = [len(block) for block in blocks]
    first, second = (float(length == max(lengths)) for length in lengths)
    return scores_of(first, second)


def _completion(reply: Reply, request: dict[str, Any]) -> dict[str, Any]:
    content = reply.content
    if content == BY_LENGTH:
        content = _scores_by_length(str(request["messages"][-1]["content"]))
    if content == GOOD and TRIAL_SWAPPED in str(request["messages"][-1]["content"]):
        content = scores_of(0.1, 0.9)
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "judge",
        "choices": [choice],
    }


def judge_server(
    *replies: Reply, every: Reply | None = None
) -> AbstractContextManager[JudgeServer]:
    """A running server on a free loopback port."""
    return serving(JudgeServer(list(replies), every or Reply()))
