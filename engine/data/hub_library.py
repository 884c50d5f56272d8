"""What requests of huggingface_hub need from the environment, and what its errors mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
from tqdm.auto import tqdm

from engine.base.errors import shorten
from engine.base.masking import mask_url
from engine.recipe import hub


class Remote(TypedDict):
    """Endpoint and token. They are passed on: the library reads variables when it is imported."""

    endpoint: str
    token: str | Literal[False]


class AnswerError(Exception):
    """The hub does not give what was asked for."""

    def __init__(self, answer: hub.Answer) -> None:
        super().__init__(answer.detail)
        self.answer = answer


class NoBar(tqdm):
    """A bar that is never drawn."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "disable": True})


def remote(env: Mapping[str, str]) -> Remote:
    """Return the endpoint and the token of ``env``."""
    token = hub.find_token(env)
    return {"endpoint": hub.endpoint(env), "token": token[0] if token else False}


def read_failure(error: Exception, env: Mapping[str, str], folder: Path) -> Exception:
    """Return what to raise for an error of the library: mostly an AnswerError.

    An error of the disk stays what it is, with ``folder`` for a missing file name, and so does an
    error about an invalid name.
    """
    if isinstance(error, HFValidationError):
        return error
    cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else error
    if (response := getattr(cause, "response", None)) is not None:
        return AnswerError(_read_refusal(response.status_code, response.headers, env))
    if isinstance(cause, OSError) and cause.errno is not None:
        return OSError(cause.errno, cause.strerror, str(cause.filename or folder))
    is_answer = isinstance(cause, ValueError | LookupError | TypeError | AssertionError)
    state: hub.State = "no_hub" if is_answer else "unreachable"
    return AnswerError(hub.Answer(state, line(cause or error)))


def _read_refusal(status: int, headers: hub.Headers, env: Mapping[str, str]) -> hub.Answer:
    is_own = hub.endpoint(env) != hub.DEFAULT_ENDPOINT
    if status == 404 and is_own and not headers.get("X-Error-Code"):
        return hub.Answer("no_hub", str(status))
    return hub.read_refusal(status, headers, hub.find_token(env) is not None)


def line(error: BaseException) -> str:
    """Return the message of an error in one line, without credentials in URLs."""
    return mask_url(shorten(" ".join(str(error).split()) or type(error).__name__, 160))
