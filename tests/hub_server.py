"""A hub on the loopback: models and data sets, as huggingface_hub asks for them.

Endpoints, headers and error codes are those that the library reads:
``/api/TYPE/REPO[/revision/REV]``, ``/api/TYPE/REPO/tree/REV``, and
``[/datasets]/REPO/resolve/REV/PATH`` with ranges.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from tests.loopback import LoopbackServer

NO_REPOSITORY = (404, "RepoNotFound", "Repository not found")
_INFO = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/revision/([^/]+))?")
_TREE = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/tree/([^/]+)(?:/.*)?")
_FILE = re.compile(r"/(?:(datasets)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_PAGE = 50


@dataclass(frozen=True)
class Repo:
    """A repository of one commit at a time. ``readers`` are the tokens that may read a ``private``
    or ``gated`` one; the latter shows its file names to everybody. ``branches`` are beside main."""

    files: Mapping[str, bytes]
    private: bool = False
    gated: bool = False
    readers: tuple[str, ...] = ()
    branches: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    large: bool = False
    """Its files are kept elsewhere (LFS): a redirect leads to them."""

    def find_revision(self, revision: str) -> tuple[str, Mapping[str, bytes]] | None:
        """The commit of a branch or of a commit, with its files."""
        branches = {"main": self.files, **self.branches}
        commits = {name: commit_of(files) for name, files in branches.items()}
        for name, commit in commits.items():
            if revision in (name, commit):
                return commit, branches[name]
        return None


def commit_of(files: Mapping[str, bytes]) -> str:
    """The commit of a branch with these files."""
    digest = hashlib.sha1()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return digest.hexdigest()


class HubServer(LoopbackServer):
    """``repos`` by ``models/OWNER/NAME`` and ``datasets/OWNER/NAME``; they may change meanwhile.

    ``tokens`` are valid; any other one is refused. ``requests`` has method, path and range of each.
    ``failing``: the status of every answer, e.g. 503. ``cut``: how many responses with a file end
    early, after half of the rest.
    """

    def __init__(self, repos: Mapping[str, Repo], tokens: tuple[str, ...] = ()) -> None:
        super().__init__(_Handler)
        self.repos, self.tokens = dict(repos), tokens
        self.requests: list[tuple[str, str, str | None]] = []
        self.failing: int | None = None
        self.cut = 0

    def paths(self, method: str) -> list[str]:
        return [path for name, path, _ in self.requests if name == method]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HubServer

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.server.requests.append((self.command, self.path, self.headers.get("Range")))
        path = urlsplit(self.path).path
        if self.server.failing is not None:
            return self._refuse(self.server.failing, "", "The hub fails")
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token and token not in self.server.tokens:
            return self._refuse(401, "", "Invalid credentials in Authorization header")
        if match := _TREE.fullmatch(path):
            return self._tree(match[1], unquote(match[2]), unquote(match[3]), token)
        if match := _INFO.fullmatch(path):
            return self._info(match[1], unquote(match[2]), unquote(match[3] or "main"), token)
        if path.startswith("/stored/"):
            return self._stored(path.removeprefix("/stored/"))
        if match := _FILE.fullmatch(path):
            name, revision = unquote(match[2]), unquote(match[3])
            return self._file(match[1] or "models", name, revision, unquote(match[4]), token)
        return self._refuse(404, "", "Not found")

    def _find(
        self, kind: str, name: str, revision: str, token: str, *, content: bool
    ) -> tuple[Repo, str, Mapping[str, bytes]] | None:
        """The repository, commit and files, or None after an answer that refuses them."""
        repo = self.server.repos.get(f"{kind}/{name}")
        may_read = repo is not None and token in repo.readers
        if repo is None or (repo.private and not may_read):
            if not token:
                self._refuse(401, "RepoNotFound", "Invalid username or password.")
            else:
                self._refuse(*NO_REPOSITORY)
            return None
        if repo.gated and content and not may_read:
            self._refuse(403 if token else 401, "GatedRepo", f"Access to {kind}/{name} is gated")
            return None
        found = repo.find_revision(revision)
        if found is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return repo, *found

    def _info(self, kind: str, name: str, revision: str, token: str) -> None:
        if (found := self._find(kind, name, revision, token, content=False)) is None:
            return
        repo, commit, files = found
        self._send_json(
            {
                "id": name,
                "sha": commit,
                "private": repo.private,
                "gated": "auto" if repo.gated else False,
                "disabled": False,
                "tags": [],
                "downloads": 0,
                "siblings": [
                    {"rfilename": path, "size": len(data)} for path, data in files.items()
                ],
            }
        )

    def _tree(self, kind: str, name: str, revision: str, token: str) -> None:
        if (found := self._find(kind, name, revision, token, content=False)) is None:
            return
        _, _, files = found
        parts = urlsplit(self.path)
        start = int(parse_qs(parts.query).get("cursor", ["0"])[0])
        names = list(files)[start : start + _PAGE]
        items = [
            {"type": "file", "path": path, "size": len(files[path]), "oid": _blob(files[path])}
            for path in names
        ]
        more: dict[str, str] = {}
        if start + _PAGE < len(files):
            query = urlencode({"recursive": "true", "cursor": start + _PAGE})
            more["Link"] = f'<{self.server.url}{parts.path}?{query}>; rel="next"'
        self._send_json(items, more)

    def _file(self, kind: str, name: str, revision: str, path: str, token: str) -> None:
        if (found := self._find(kind, name, revision, token, content=True)) is None:
            return
        repo, commit, files = found
        headers = {"X-Repo-Commit": commit}
        if path not in files:
            self._refuse(404, "EntryNotFound", "Entry not found", headers)
            return
        data = files[path]
        if not repo.large:
            self._send_file(data, {**headers, "ETag": f'"{_blob(data)}"'})
            return
        digest = hashlib.sha256(data).hexdigest()
        headers |= {"X-Linked-Size": str(len(data)), "X-Linked-ETag": f'"{digest}"'}
        location = f"http://localhost:{self.server.server_address[1]}/stored/{digest}"
        self._send(302, b"", {**headers, "Location": location})

    def _stored(self, digest: str) -> None:
        """A large file at its storage, which gets no token."""
        if self.headers.get("Authorization"):
            return self._refuse(400, "", "The token must not go elsewhere")
        branches = [
            files
            for repo in self.server.repos.values()
            for files in (repo.files, *repo.branches.values())
        ]
        everything = (data for files in branches for data in files.values())
        data = next(each for each in everything if hashlib.sha256(each).hexdigest() == digest)
        return self._send_file(data, {"ETag": f'"{digest}"'})

    def _send_file(self, data: bytes, headers: Mapping[str, str]) -> None:
        status: Literal[200, 206] = 200
        sent: dict[str, str] = {"Accept-Ranges": "bytes", **headers}
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            start = int(match[1])
            sent["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            status, data = 206, data[start:]
        self._send(status, data, sent)

    def _send_json(self, value: Any, headers: Mapping[str, str] | None = None) -> None:
        more = {"Content-Type": "application/json", **(headers or {})}
        self._send(200, json.dumps(value).encode(), more)

    def _refuse(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        named = {"X-Error-Code": code, "X-Error-Message": message}
        body = json.dumps({"error": message}).encode()
        self._send(status, body, {**(headers or {}), **{k: v for k, v in named.items() if v}})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.cut and "Accept-Ranges" in headers:
            self.server.cut -= 1
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return None


def _blob(data: bytes) -> str:
    """The name that git gives a file."""
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
