"""A trainer on a Ray cluster, whose job server is spoken to over Ray's Jobs REST API.

``python -m engine.supervise.ray_jobs ADDRESS -- COMMAND ...`` is the local process of such a run.
The supervisor treats it like any trainer. It submits the command as a job, copies the job's output
to its own, stops the job on SIGINT or SIGTERM, and exits with the job's exit code. While the
cluster does not answer, it prints that and repeats its request: a network failure does not fail the
run.

Plain HTTP rather than ``JobSubmissionClient``: that one imports all of ray, and its requests have
no timeout, so a silent network would hang a stop.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import SplitResult, quote, urlsplit

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from engine.base import jsonl, typed
from engine.base.addresses import cleartext_complaint
from engine.base.errors import UsageError
from engine.run.host.programs import keep_folder_last, own_module
from engine.run.run import ATTEMPT_DIR_VARIABLE, ON_CLUSTER_VARIABLE, RUN_ID_VARIABLE
from engine.supervise.follower import JobError, JobFollower, Report, say

DEFAULT_PORT = 8265
_JOB_FILE = "ray_job.json"
TIMEOUT_S = 15.0
_NO_AGENT_YET = "No available agent"
"""What the job server answers with status 500 until the nodes' agents run, seconds after itself."""
_EXAMPLE = f"http://HEAD:{DEFAULT_PORT}"


class UnreachableError(JobError):
    """The job server does not answer now; it may later."""


class RefusedError(JobError):
    """The job server answered that it will not do what was asked."""


@dataclass(frozen=True)
class Job:
    """A job as the cluster sees it. ``status`` is Ray's, e.g. ``RUNNING``."""

    status: str
    message: str
    exit_code: int | None

    @property
    def has_ended(self) -> bool:
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")


@dataclass(frozen=True)
class Node:
    """A live node and what it offers in all, in Ray's logical units."""

    address: str
    cpus: float
    gpus: float


class _NodeRow(Struct, frozen=True):
    """A node as Ray's state API lists it; of one that is not alive, anything may be missing."""

    state: str | None = None
    node_ip: str | None = None
    resources_total: dict[str, float] | None = None


class _Listing(Struct, frozen=True):
    result: list[_NodeRow]


@dataclass(frozen=True)
class Cluster:
    """``address`` is the job server's, e.g. ``http://head:8265``."""

    address: str

    def version(self) -> str:
        """The cluster's Ray version. Raises UnreachableError or RefusedError."""
        version = self._ask("GET", "/api/version").get("ray_version")
        if not isinstance(version, str):
            raise RefusedError("it does not answer as Ray's job server does")
        return version

    def nodes(self) -> list[Node]:
        """The live nodes."""
        answer = self._ask("GET", "/api/v0/nodes?detail=1&limit=10000")
        try:
            rows = convert(answer["data"], dict[str, _Listing])["result"].result
        except (KeyError, ValidationError) as error:
            raise RefusedError("it does not list its nodes as Ray does") from error
        return [
            Node(row.node_ip or "", offered.get("CPU", 0.0), offered.get("GPU", 0.0))
            for row in rows
            if row.state == "ALIVE"
            for offered in [row.resources_total or {}]
        ]

    def submit(self, submission_id: str, entrypoint: str, variables: Mapping[str, str]) -> None:
        """Start a job. ``variables`` show in Ray's dashboard: no secrets."""
        body = {
            "entrypoint": entrypoint,
            "submission_id": submission_id,
            "runtime_env": {"env_vars": dict(variables)},
        }
        self._ask("POST", "/api/jobs/", body)

    def job(self, submission_id: str) -> Job | None:
        """The job, or None if the cluster does not have it."""
        try:
            raw = self._ask("GET", f"/api/jobs/{quote(submission_id)}")
        except FileNotFoundError:
            return None
        return Job(
            status=str(raw.get("status")),
            message=jsonl.line(raw.get("message")) or "",
            exit_code=jsonl.integer(raw.get("driver_exit_code")),
        )

    def logs(self, submission_id: str) -> str:
        """The output of the job, as stored by Ray."""
        try:
            return str(self._ask("GET", f"/api/jobs/{quote(submission_id)}/logs").get("logs") or "")
        except FileNotFoundError:
            return ""

    def stop(self, submission_id: str) -> None:
        """Ask for the job's end: SIGTERM, and after a while SIGKILL. Harmless when it is over."""
        try:
            self._ask("POST", f"/api/jobs/{quote(submission_id)}/stop")
        except FileNotFoundError:
            return

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        status, text = self._request(method, path, body)
        if status == 404:
            raise FileNotFoundError(path)
        if status in (401, 403):
            refused = "the cluster does not accept this token"
            problem = "it asks for a token" if status == 401 else refused
            advice = "copy the head node's token to ~/.ray/auth_token or RAY_AUTH_TOKEN_PATH"
            raise RefusedError(f"{problem}: {advice}")
        if status != 200:
            reason = _last_line(text)
            if _NO_AGENT_YET in reason:
                raise UnreachableError(reason)
            raise RefusedError(f"HTTP {status}: {reason}")
        answer = jsonl.parse_line(text)
        if answer is None:
            raise RefusedError("it does not answer as Ray's job server does")
        return answer

    def _request(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        parts = urlsplit(self.address)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        token = _authorization(os.environ)
        complaint = cleartext_complaint("Ray's token", self.address, os.environ)
        if token and complaint:
            raise RefusedError(complaint)
        headers = {"Content-Type": "application/json", **token}
        connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, parts.path.rstrip("/") + path, data, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            raise UnreachableError(reason) from error
        except HTTPException as error:
            raise UnreachableError(
                f"no HTTP answer ({type(error).__name__}); is it the dashboard's port?"
            ) from error
        finally:
            connection.close()


def parse_address(text: str) -> Cluster:
    """The cluster behind ``--ray TEXT``: ``http(s)://host[:port]`` or ``host:port``."""
    scheme, separator, target = text.partition("://")
    if scheme == "ray":
        host = target.rsplit(":", 1)[0] or "HEAD"
        raise UsageError(
            f"--ray {text}: that is Ray Client's address; a run is submitted to the job server, "
            f"e.g. http://{host}:{DEFAULT_PORT}"
        )
    if text in ("auto", "local"):
        raise UsageError(f"--ray {text}: name the job server, e.g. http://127.0.0.1:{DEFAULT_PORT}")
    parts = _split(text if separator else f"http://{text}", text)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            "--ray: the address is stored with the run; do not put a login or key into it"
        )
    port = parts.port or (DEFAULT_PORT if parts.scheme == "http" else 443)
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else name
    return Cluster(f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}")


def _split(url: str, text: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    if not usable or any(not c.isprintable() or c == " " for c in url):
        raise UsageError(f"--ray {text}: not an address of a job server; it looks like {_EXAMPLE}")
    return parts


def _authorization(env: Mapping[str, str]) -> dict[str, str]:
    """Ray's token, from where Ray's own clients take it."""
    if env.get("RAY_AUTH_MODE", "token").lower() != "token":
        return {}
    token = env.get("RAY_AUTH_TOKEN") or _read(env.get("RAY_AUTH_TOKEN_PATH"))
    token = token or _read(str(Path.home() / ".ray" / "auth_token"))
    return {"Authorization": f"Bearer {token}"} if token else {}


def _read(path: str | None) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip() if path else ""
    except (OSError, UnicodeError):
        return ""


def _last_line(text: bytes) -> str:
    """The last line of the traceback with which Ray answers errors."""
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines()]
    return next((line[:300] for line in reversed(lines) if len(line) > 1), "no reason given")


CARRIED = (
    RUN_ID_VARIABLE,
    ATTEMPT_DIR_VARIABLE,
    "VERL_FILE_LOGGER_PATH",
    "WANDB_RUN_ID",
    "WANDB_RESUME",
    "WANDB_MODE",
    "WANDB_DIR",
    "WANDB_NAME",
    "WANDB_RUN_GROUP",
    "WANDB_TAGS",
    "WANDB_FINISH_TIMEOUT",
)
"""Variables of the launch that a job's processes get; all others may be secret."""


class RayJob(Struct, frozen=True):
    """``ray_job.json``: written before the job is submitted, so that no job is ever unknown.

    ``ended`` is the status it ended with, None while it may run. ``environment`` is what it gets
    beyond the cluster's own environment; it holds no secrets.
    """

    address: str
    submission_id: str
    cwd: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    ended: str | None = None

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.address)

    @property
    def title(self) -> str:
        return f"job {self.submission_id} on {self.address}"

    def write(self, attempt: Path) -> None:
        typed.write_record(attempt / _JOB_FILE, self)

    def look(self) -> tuple[RayJob, str]:
        """The job with its end, if it has ended, and Ray's word for its state. Raises JobError."""
        found = self.cluster.job(self.submission_id)
        state = found.status if found else "GONE"
        ended = state if found is None or found.has_ended else None
        return replace(self, ended=ended), state

    def cancel(self) -> None:
        """Ask for its end. Raises JobError."""
        self.cluster.stop(self.submission_id)


def read_job(attempt: Path) -> RayJob | None:
    """The attempt's job; None when it has none or the file is not readable."""
    return typed.read_record(attempt / _JOB_FILE, RayJob)


POLL_S = 1.0
# Ray kills a job that outlives this; shorter than the supervisor waits before its next signal.
STOP_WAIT_S = 10


def follower_argv(address: str, trainer: Sequence[str]) -> list[str]:
    """The local command that runs ``trainer`` as a job on the cluster."""
    return [*own_module("engine.supervise.ray_jobs", address, "--"), *trainer]


def main(arguments: Sequence[str]) -> int:
    address, _, *argv = arguments
    attempt = Path(os.environ[ATTEMPT_DIR_VARIABLE])
    job = RayJob(
        address=address,
        submission_id=new_submission_id(os.environ[RUN_ID_VARIABLE], attempt.name),
        cwd=str(Path.cwd()),
        argv=tuple(argv),
        environment=carried(os.environ),
    )
    return RayFollower(attempt, job).follow()


def new_submission_id(run_id: str, attempt: str) -> str:
    """Unique on a cluster that others use too, and safe in a URL and a file name."""
    return f"grubrics-{re.sub(r'[^A-Za-z0-9_-]', '-', run_id)}-{attempt}-{secrets.token_hex(4)}"


def carried(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that the job needs, from a fixed list: others may hold secrets."""
    return {ON_CLUSTER_VARIABLE: "1", **{name: env[name] for name in CARRIED if name in env}}


def entrypoint(attempt: Path, job: RayJob) -> str:
    """The job's command; Ray hands it to a shell, so every word is quoted."""
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    keep_folder_last(env)
    driver = (sys.executable, "-m", "engine.train.ray_driver", str(attempt), job.submission_id)
    return shlex.join(["env", *(f"{name}={value}" for name, value in env.items()), *driver])


class RayFollower(JobFollower):
    """One job, from submission to end."""

    job: RayJob

    def __init__(self, attempt: Path, job: RayJob) -> None:
        super().__init__(attempt, Report(f"job {job.submission_id}"), job, job.address)
        self.cluster: Cluster = job.cluster
        self._stop_asked = False

    def follow(self) -> int:
        """Return the exit code: the job's own, 128 + n after signal n, otherwise 1."""
        if not self.begin():
            return 128 + self.signals[0]
        try:
            self._submit()
        except RefusedError as error:
            say(f"RayJobError: {self.job.address}: {error}")
            return 1
        return self._conclude(self._until_end())

    def _submit(self) -> None:
        """Submit once: a lost answer must not start the job twice."""
        command = entrypoint(self.attempt, self.job)
        variables = {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S)}
        while not self.signals:
            try:
                if self.cluster.job(self.job.submission_id) is None:
                    self.cluster.submit(self.job.submission_id, command, variables)
                self.contact.restored()
                say(f"Ray job {self.job.submission_id} submitted to {self.job.address}")
                return
            except UnreachableError as error:
                self.contact.lost(error)
                time.sleep(POLL_S)

    def _until_end(self) -> Job | None:
        """The ended job; None if it cannot be followed any further."""
        while True:
            self.log.copy()
            try:
                self._pass_on_stop()
                job = self.cluster.job(self.job.submission_id)
                self.contact.restored()
                if job is None or job.has_ended:
                    return job or Job("GONE", "the cluster does not know the job", None)
            except (UnreachableError, RefusedError) as error:
                self.contact.lost(error)
                if len(self.signals) > 1:
                    return None
            time.sleep(POLL_S)

    def _pass_on_stop(self) -> None:
        """Stop the job, repeatedly: Ray forgets a stop that comes before the job has started."""
        if not self.signals:
            return
        self.cluster.stop(self.job.submission_id)
        if not self._stop_asked:
            self._stop_asked = True
            say(f"asked {self.job.address} to stop the job")

    def _conclude(self, job: Job | None) -> int:
        if job is None:
            say(f"RayJobError: {self.job.address} does not answer; the job may still run there")
            return 1
        # A failure does no harm: later commands ask the cluster.
        self.keep_job(ended=job.status)
        self.log.copy()
        if self.log.offset == 0 and job.status == "FAILED":
            printed = ""
            # Ray's own log of the job names the error if the job did not start.
            with suppress(JobError):
                printed = self.cluster.logs(self.job.submission_id).rstrip()
            say(printed or job.message)
        say(f"Ray job {self.job.submission_id}: {job.status}")
        if self._stop_asked and job.status != "SUCCEEDED":
            return 128 + self.signals[0]
        if job.status in ("STOPPED", "GONE"):
            say(f"RayJobError: {job.status.lower()} on the cluster, not by this run: {job.message}")
            return 1
        return exit_code(job)


def exit_code(job: Job) -> int:
    """The job's exit code as a shell shows it."""
    if job.status == "SUCCEEDED":
        return 0
    code = job.exit_code or 1
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
