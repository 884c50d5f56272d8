"""Talking to a Ray cluster's job server, without a cluster."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from engine.base.errors import UsageError
from engine.supervise.ray_jobs import Cluster, RefusedError, UnreachableError, parse_address


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("head:8265", "http://head:8265"),
        ("head", "http://head:8265"),
        ("http://head:9000/", "http://head:9000"),
        ("https://ray.example.org/team", "https://ray.example.org:443/team"),
        ("http://[::1]:8265", "http://[::1]:8265"),
    ],
)
def test_an_address_names_the_job_server(given: str, meant: str) -> None:
    assert parse_address(given).address == meant


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("ray://head:10001", "http://head:8265"),
        ("auto", "http://127.0.0.1:8265"),
        ("ftp://head", "http://HEAD:8265"),
        ("head:notaport", "http://HEAD:8265"),
        ("", "http://HEAD:8265"),
        ("he ad:1", "http://HEAD:8265"),
    ],
)
def test_another_address_is_refused_with_one_that_would_do(given: str, advice: str) -> None:
    with pytest.raises(UsageError, match=advice) as refused:
        parse_address(given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("given", ["http://me:secret@head:8265", "http://head:8265?token=secret"])
def test_a_secret_in_an_address_is_refused_and_not_repeated(given: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_address(given)
    assert "secret" not in str(refused.value)


class JobServer(BaseHTTPRequestHandler):
    """Answers like a cluster whose token is ``right``; ``/api/jobs/x`` is a job's line."""

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != "Bearer right":
            self._answer(401 if "Authorization" not in self.headers else 403, b"Unauthorized")
        elif self.path == "/api/version":
            self._answer(200, b'{"ray_version": "2.60.0"}')
        elif self.path == "/api/jobs/x":
            self._answer(200, b'{"status": "FAILED", "message": "a\\nb", "driver_exit_code": -9}')
        elif self.path == "/api/jobs/broken":
            self._answer(500, b"Traceback ...\nRuntimeError: no agent\n.\n")
        else:
            self._answer(404, b"does not exist")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    server = HTTPServer(("127.0.0.1", 0), JobServer)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield Cluster(f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_token_is_found_where_ray_keeps_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RefusedError, match=r"asks for a token: .*auth_token"):
        cluster.version()
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("right\n")
    assert cluster.version() == "2.60.0"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
    with pytest.raises(RefusedError, match="does not accept this token"):
        cluster.version()


def test_a_job_says_how_it_ended(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "right")
    job = cluster.job("x")
    assert job is not None and job.has_ended
    assert (job.status, job.message, job.exit_code) == ("FAILED", "a b", -9)
    assert cluster.job("unheard-of") is None


def test_an_error_of_the_server_is_one_line(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "right")
    with pytest.raises(RefusedError, match=r"^HTTP 500: RuntimeError: no agent$"):
        cluster.job("broken")


def test_nobody_listening_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(UnreachableError, match="Connection refused"):
            Cluster(address).version()


def test_a_port_that_speaks_something_else_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            connection.recv(100)
            connection.sendall(b"SSH-2.0-OpenSSH\r\n")
            connection.close()

        thread = Thread(target=answer)
        thread.start()
        with pytest.raises(UnreachableError, match="HTTP"):
            Cluster(f"http://127.0.0.1:{listener.getsockname()[1]}").version()
        thread.join()


def test_the_token_is_not_sent_in_the_clear_to_another_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "right")
    with pytest.raises(RefusedError, match=r"Ray's token would be sent unencrypted"):
        Cluster("http://192.0.2.1:8265").version()
