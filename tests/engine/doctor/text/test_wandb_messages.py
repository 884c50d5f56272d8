"""Six problems of W&B in the words of wandb 0.31, and in those of a run that continues."""

from __future__ import annotations

import pytest

from engine.run.finding import Severity
from tests.engine.doctor.text.reading import read

_INIT = """Traceback (most recent call last):
  File "/home/ann/train.py", line 5, in <module>
    wandb.init(project="p", name="n")
  File "/env/lib/python3.11/site-packages/wandb/sdk/wandb_init.py", line 966, in init
    raise error
wandb.errors.errors.{}
"""

KINDS = {
    "wandb_auth": "CommError: user is not logged in",
    "wandb_auth/key": "AuthenticationError: WANDB_API_KEY invalid: API key must have 40+ "
    "characters, has 3.",
    "wandb_auth/none": "UsageError: No API key configured. Use `wandb login` to log in.",
    "wandb_auth/403": "CommError: permission denied",
    "wandb_auth.project": "CommError: entity lab not found during upsertBucket",
    "wandb_network.retries": 'CommError: Timed out while retrying: Post "http://127.0.0.1:9/graphql"'
    ": dial tcp 127.0.0.1:9: connect: connection refused",
    "wandb_network.retries/dns": "CommError: Timed out while retrying: Post "
    '"https://api.example.com/graphql": dial tcp: lookup api.example.com on 10.0.0.53:53: no such '
    "host",
    "wandb_network.retries/500": "CommError: Timed out while retrying: HTTP 500: oops",
    "wandb_network.limit": "CommError: Timed out while retrying: HTTP 429: rate limit exceeded",
    "wandb_network.limit/quota": "CommError: quota exceeded",
    "wandb_teardown_or_crash.deleted": "CommError: Timed out while retrying: HTTP 409: run x was "
    "previously created and deleted; try a new run name",
}


@pytest.mark.row("V32")
@pytest.mark.parametrize("expected", KINDS)
def test_an_exception_of_w_and_b_is_named(expected: str) -> None:
    assert read(_INIT.format(KINDS[expected]))[0].id == expected.partition("/")[0]


@pytest.mark.row("V32")
def test_a_folder_that_cannot_be_written_is_named() -> None:
    lines = [
        "wandb: WARNING Unable to create root directory /data",
        "wandb: WARNING Falling back to temporary directory /tmp.",
    ]
    assert read("\n".join(lines))[0].id == "permission_or_fd_limit.wandb_dir"


CONTINUED = {
    "wandb_auth": "wandb_auth.continued",
    "wandb_auth/key": "wandb_auth.continued",
    "wandb_auth/403": "wandb_auth.continued",
    "wandb_auth.project": "wandb_auth.project_continued",
    "wandb_network.retries": "wandb_network.continued",
    "wandb_network.retries/500": "wandb_network.continued",
    "wandb_network.limit": "wandb_network.limit_continued",
    "wandb_network.limit/quota": "wandb_network.limit_continued",
}


@pytest.mark.row("V32")
@pytest.mark.parametrize("problem", CONTINUED)
def test_a_run_that_continues_without_w_and_b_is_warned_about(problem: str) -> None:
    line = f"W&B failed: {KINDS[problem]}. The run continues; W&B logs offline\n"
    finding = read(line)[0]
    assert (finding.id, finding.severity) == (CONTINUED[problem], Severity.WARNING)


def test_a_process_of_w_and_b_that_died_is_named() -> None:
    line = "W&B failed: ConnectionResetError: [Errno 104] Connection reset by peer. The run "
    assert read(f"{line}continues; W&B gets no more values of this attempt")[0].id == (
        "wandb_teardown_or_crash.continued"
    )
