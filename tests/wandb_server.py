"""A W&B server on the loopback: what wandb 0.31 asks to log a run or to sync one.

It answers GraphQL by the name of the operation, and accepts every file.
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import LoopbackServer

KEY = "a" * 40
ENTITY = "lab"


class WandbServer(LoopbackServer):
    """Accepts every run, unless its attributes say otherwise."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        """The variables of each request that begins or updates a run."""
        self.refusal: tuple[int, str] | None = None
        self.refused_runs: set[str] = set()
        """The runs that ``refusal`` is for; all of them if empty."""
        self.knows_key = True
        super().__init__(_Handler)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which W&B uses this server, and prints plain text."""
        return {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": KEY, "NO_COLOR": "1"}

    def answer(self, operation: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not self.knows_key:
            return _refused(401, "user is not logged in")
        if operation == "Viewer":
            person = {"id": "1", "entity": ENTITY, "username": ENTITY, "flags": "{}"}
            return 200, {"data": {"viewer": {**person, "teams": {"edges": []}}}}
        if operation == "UpsertBucket":
            return self._upsert(given)
        if operation == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.url}/file"} for name in given["files"]]
            created = {"runID": "1", "uploadHeaders": [], "files": files}
            return 200, {"data": {"createRunFiles": created}}
        return 200, {"data": {}}

    def _upsert(self, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.runs.append(given)
        is_meant = not self.refused_runs or given["name"] in self.refused_runs
        if self.refusal is not None and is_meant:
            return _refused(*self.refusal)
        project = {"id": "1", "name": given["project"], "entity": {"id": "1", "name": ENTITY}}
        bucket = {"id": "1", "name": given["name"], "displayName": given.get("displayName")}
        more = {"config": "{}", "historyLineCount": 0, "project": project}
        return 200, {"data": {"upsertBucket": {"bucket": {**bucket, **more}, "inserted": True}}}


def _refused(status: int, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"errors": [{"message": message}]}


class _Handler(BaseHTTPRequestHandler):
    server: WandbServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/graphql":
            return self._send(200, {})
        asked = json.loads(body)
        operation = re.search(r"(?:query|mutation)\s+(\w+)", asked["query"])
        name = operation[1] if operation else ""
        return self._send(*self.server.answer(name, asked.get("variables") or {}))

    do_PUT = do_GET = do_POST  # noqa: N815 - the names that http.server calls

    def _send(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(HTTPStatus(status))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
