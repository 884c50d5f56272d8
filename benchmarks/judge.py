"""How many calls per second workers that share a limit reach, and what an outage costs.

    python benchmarks/judge.py                # all parts, about 5 minutes
    python benchmarks/judge.py rate           # or: refused, 503, hangs

The judge is a local server that answers after a second and counts the calls that are open at once.
``rate``: worker processes score rollouts as the reward workers of a run do. The other parts score
them, and gold scores for a cache, while the server is out of service for 30 s.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.data.adapters import Example
from engine.data.precompute import PrecomputePlan, precompute
from engine.reward.formula import RewardSettings
from engine.reward.judge.interface import Judge
from engine.reward.judge.settings import JudgeSettings, make_judge
from engine.reward.scoring import RewardItem, score_rollout

WORKERS, LIMIT, LATENCY_S = 8, 10, 1.0
CALLS = 30
"""Rollouts per worker."""
QUESTIONS = 60
"""Questions of the cache, each judged once."""
OUTAGE_S = 30.0
BEFORE_S = 5.0
"""Seconds of service before the outage."""
TIMEOUT_S = 20.0
"""``judge.timeout_s``: a call that hangs is given up within the outage."""
OUTAGES = ("refused", "503", "hangs")
RUBRIC = "Points: 10, Item: Names the dose"
ANSWERS = ("A tablet of 5 mg.", "A tablet.")
SCORES = [{"answer_id": "a1", "total_score": 0.9}, {"answer_id": "a2", "total_score": 0.1}]
REPLY = {"choices": [{"message": {"content": json.dumps({"evaluations": SCORES})}}]}


@dataclass
class Calls:
    """What the server sees. Times are those of ``time.monotonic``."""

    state: str = "serves"
    began: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    open: int = 0
    busiest: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def counted(self) -> Iterator[None]:
        with self.lock:
            self.began.append(time.monotonic())
            self.open += 1
            self.busiest = max(self.busiest, self.open)
        try:
            yield
        finally:
            with self.lock:
                self.open -= 1
                self.ended.append(time.monotonic())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, calls: Calls) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.calls = calls
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def end(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.calls.state == "hangs":
            self.rfile.read(1)  # returns when the client hangs up
        elif self.server.calls.state == "503":
            self._answer(503, {"error": {"message": "down for 30 s"}})
        else:
            with self.server.calls.counted():
                time.sleep(LATENCY_S)
            self._answer(200, REPLY)

    def _answer(self, status: int, reply: dict[str, Any]) -> None:
        payload = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        return None


class Service:
    """The server at a fixed address, in and out of service."""

    def __init__(self) -> None:
        self.calls = Calls()
        self._server = _Server(0, self.calls)
        self._port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self._port}/v1"

    def end(self) -> None:
        self._server.end()

    def outage(self, kind: str) -> None:
        """Serve from the first call on, be out of service, and serve again."""
        seen = len(self.calls.began)
        while len(self.calls.began) == seen:
            time.sleep(0.05)
        time.sleep(BEFORE_S)
        if kind == "refused":
            self._server.end()
        self.calls.state = kind
        time.sleep(OUTAGE_S)
        self.calls.state = "serves"
        if kind == "refused":
            self._server = _Server(self._port, self.calls)


@dataclass(frozen=True)
class Scored:
    """What the scorer says of a rollout. Times are in seconds."""

    reward: float | None
    attempts: int
    failed: list[str]
    duration_s: float


def settings(url: str) -> JudgeSettings:
    return JudgeSettings(provider="openai", base_url=url, max_concurrent=LIMIT, timeout_s=TIMEOUT_S)


async def worker(url: str, slots: Path, count: int) -> list[dict[str, Any]]:
    """Score ``count`` rollouts at once, as a reward worker does."""
    judge = make_judge(settings(url), slots, {})
    item = RewardItem("q", "Which dose?", ANSWERS, (1.0, 0.0))
    try:
        scores = await asyncio.gather(
            *(score_rollout(RUBRIC, item, judge, RewardSettings()) for _ in range(count))
        )
    finally:
        await judge.aclose()
    return [
        vars(Scored(score.reward, score.attempts, list(score.failed_attempts), score.duration_s))
        for score in scores
    ]


def score_in_workers(service: Service, folder: Path) -> list[Scored]:
    command = [sys.executable, __file__, "worker", service.url, str(folder / "slots")]
    workers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(WORKERS)
    ]
    outputs = [each.communicate()[0] for each in workers]
    return [Scored(**score) for output in outputs for score in json.loads(output)]


def fill_cache(service: Service, folder: Path) -> tuple[int, int]:
    """Questions in the cache, and those that failed."""
    cache = folder / "cache.jsonl"
    examples = [
        Example(f"q{number}", f"Question {number}?", "", golden_rubric=RUBRIC, answers=ANSWERS)
        for number in range(QUESTIONS)
    ]

    async def fill(judge: Judge) -> int:
        try:
            report = await precompute(examples, judge, cache, PrecomputePlan(1, 2, 0, LIMIT))
        finally:
            await judge.aclose()
        return len(report.failed)

    failed = asyncio.run(fill(make_judge(settings(service.url), None, {})))
    return len(list(jsonl.read(cache))), failed


def measure_rate(service: Service, folder: Path) -> None:
    scores = score_in_workers(service, folder)
    calls = service.calls
    seconds = max(calls.ended) - min(calls.began)
    print("| calls | seconds | calls/s | most open at once | scored |\n|---|---|---|---|---|")
    rate, scored = len(calls.began) / seconds, sum(score.reward is not None for score in scores)
    cells = len(calls.began), f"{seconds:.1f}", f"{rate:.2f}", calls.busiest, scored
    print("| " + " | ".join(map(str, cells)) + " |")


def measure_outage(kind: str, service: Service, folder: Path) -> None:
    outage = partial(service.outage, kind)
    started = time.monotonic()
    scores = _beside(outage, lambda: score_in_workers(service, folder))
    seconds = time.monotonic() - started
    failed = Counter(reason for score in scores for reason in score.failed)
    cached, lost = _beside(outage, lambda: fill_cache(service, folder))
    cells = (
        kind,
        f"{sum(score.reward is not None for score in scores)} of {len(scores)}",
        ", ".join(f"{count} {reason}" for reason, count in failed.items()) or "none",
        max(score.attempts for score in scores),
        f"{seconds:.0f}",
        service.calls.busiest,
        f"{cached} of {cached + lost}",
    )
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def _beside(outage: Callable[[], None], work: Callable[[], Any]) -> Any:
    thread = threading.Thread(target=outage)
    thread.start()
    try:
        return work()
    finally:
        thread.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="rate, refused, 503, hangs (default: all)")
    parts = parser.parse_args().parts or ["rate", *OUTAGES]
    if parts[0] == "worker":
        print(json.dumps(asyncio.run(worker(parts[1], Path(parts[2]), CALLS))))
        return 0
    for part in parts:
        if part in OUTAGES and part in (parts[0], "refused"):
            heads = "outage", "scored", "failed attempts", "most attempts", "seconds"
            print("\n| " + " | ".join((*heads, "most open at once", "cached")) + " |")
            print("|---" * 7 + "|")
        service = Service()
        with tempfile.TemporaryDirectory() as name:
            if part == "rate":
                measure_rate(service, Path(name))
            else:
                measure_outage(part, service, Path(name))
        service.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
