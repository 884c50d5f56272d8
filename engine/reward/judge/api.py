"""A judge behind the OpenAI protocol: Azure OpenAI, OpenAI, or any compatible server."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import openai

from engine.base.judge_providers import get_provider
from engine.base.masking import mask_text
from engine.reward.judge.credentials import find_credentials
from engine.reward.judge.interface import Completion, JudgeResult
from engine.reward.judge.settings import JudgeSettings
from engine.reward.judge.slots import Slots
from engine.reward.judge.wire import ReplyError, judge_messages, read_scores, shortened
from engine.run.history.reward_records import ErrorKind, ScoringError, Tokens

DEFAULT_AZURE_VERSION = "2024-12-01-preview"

T = TypeVar("T")

log = logging.getLogger(__name__)


RETRYABLE: frozenset[ErrorKind] = frozenset(
    {"rate_limit", "timeout", "connection", "parse", "server"}
)


@dataclass(frozen=True)
class Backoff:
    """Waits between attempts, in seconds, with jitter.

    A server that is down gets longer and longer waits: with the default of four attempts, a call
    survives an outage of 40 s. After a rate limit they are longer, and a server's Retry-After
    replaces them, up to ``longest_s``. A reply that cannot be read says nothing about the server.
    """

    first_s: float = 2.0
    growth: float = 4.0
    rate_limit_s: float = 15.0
    parse_s: float = 1.0
    longest_s: float = 90.0
    jitter: float = 0.3

    def wait_s(self, attempt: int, kind: ErrorKind, retry_after_s: float | None) -> float:
        """Seconds to wait after the failed ``attempt`` (counted from 1)."""
        if kind == "parse":
            wait = self.parse_s
        elif kind == "rate_limit":
            wait = self.rate_limit_s * attempt if retry_after_s is None else retry_after_s
        else:
            wait = self.first_s * self.growth ** min(attempt - 1, 20)  # beyond, it may overflow
        return min(self.longest_s, wait) * (1 + random.uniform(0, self.jitter))


class _CallError(Exception):
    """A call without a value."""

    def __init__(self, kind: ErrorKind, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.retry_after_s = kind, message, retry_after_s


@dataclass
class _Asked(Generic[T]):
    """A request with all its attempts, and the value that the last one brought."""

    value: T | None = None
    error: ScoringError | None = None
    latency_s: float | None = None
    waited_s: float = 0.0
    failed: tuple[ErrorKind, ...] = ()
    attempts: int = 0
    tokens: Tokens | None = None

    def count_tokens(self, reply: Any) -> None:
        """Add the tokens that a reply reports; an unreadable one costs them too."""
        usage = getattr(reply, "usage", None)
        sent, received = (getattr(usage, n, None) for n in ("prompt_tokens", "completion_tokens"))
        if isinstance(sent, int) and isinstance(received, int):
            before = self.tokens or Tokens(0, 0)
            self.tokens = Tokens(before.input + sent, before.output + received)


class ApiJudge:
    """Grade all answers to a question in one chat completion; retry failed calls."""

    def __init__(
        self,
        client: openai.AsyncOpenAI,
        settings: JudgeSettings,
        slots: Slots,
        backoff: Backoff | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._slots = slots
        self._token_parameter = get_provider(settings.provider).token_parameter
        self._backoff = backoff or Backoff()

    async def evaluate_answers_batched(
        self, question: str, answers: Sequence[str], rubric: str
    ) -> JudgeResult:
        """Try up to ``max_attempts`` times; an unreadable reply is a failed attempt, never zeros.

        The slot is free during the waits between attempts.
        """

        def read(reply: Any) -> tuple[float, ...]:
            try:
                return read_scores(_content(reply), len(answers))
            except ReplyError as error:
                if reply.choices[0].finish_reason != "stop":
                    raise
                raise ReplyError(f"{error}; the model ended its reply itself") from error

        asked = await self._ask(judge_messages(question, answers, rubric), read)
        return JudgeResult(
            asked.value,
            asked.error,
            asked.latency_s,
            asked.waited_s,
            asked.attempts,
            asked.failed,
            asked.tokens,
        )

    async def complete(self, messages: Sequence[Mapping[str, str]]) -> Completion:
        """The model's reply to ``messages``, with the same settings and retries as a grading."""
        asked = await self._ask(
            [dict(message) for message in messages],
            lambda reply: (_content(reply), reply.choices[0].finish_reason != "length"),
        )
        text, stopped = asked.value or (None, False)
        return Completion(text, stopped, asked.error, asked.attempts, asked.tokens)

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._client.close()

    async def _ask(self, messages: list[dict[str, str]], read: Callable[[Any], T]) -> _Asked[T]:
        """Ask until ``read`` understands the reply, up to ``max_attempts`` times."""
        asked: _Asked[T] = _Asked()
        while True:
            queued = time.perf_counter()
            try:
                async with self._slots.held():
                    started = time.perf_counter()
                    asked.waited_s += started - queued
                    asked.attempts += 1
                    asked.value = await self._call(messages, read, asked)
                    asked.latency_s = time.perf_counter() - started
                    return asked
            except _CallError as failure:
                kind, retry_after_s = failure.kind, failure.retry_after_s
                error = ScoringError(kind, mask_text(failure.message, self._client.api_key))
            asked.failed = (*asked.failed, kind)
            is_last = asked.attempts == self._settings.max_attempts or kind not in RETRYABLE
            log.warning(
                "judge: %s (attempt %d/%d, %s): %s",
                "parse failure" if kind == "parse" else kind,
                asked.attempts,
                self._settings.max_attempts,
                "giving up" if is_last else "retrying",
                error.message,
            )
            if is_last:
                asked.error = error
                return asked
            await asyncio.sleep(self._backoff.wait_s(asked.attempts, kind, retry_after_s))

    async def _call(
        self, messages: list[dict[str, str]], read: Callable[[Any], T], asked: _Asked[T]
    ) -> T:
        """The value of one call; _CallError for a failure."""
        request: dict[str, Any] = {
            "model": self._settings.model,
            "messages": messages,
            self._token_parameter: self._settings.max_tokens,
        }
        if self._settings.temperature != 1.0:  # GPT-5 models refuse the parameter
            request["temperature"] = self._settings.temperature
        try:
            # The client's limit counts silence between bytes; this one counts the whole call.
            async with asyncio.timeout(self._settings.timeout_s):
                completions = self._client.chat.completions.with_raw_response
                raw = await completions.create(**request)
            _refuse_page(raw.http_response)
            reply = _completion(raw)
            asked.count_tokens(reply)
            return read(reply)
        except _CallError:
            raise
        except (TimeoutError, openai.APITimeoutError):
            limit = self._settings.timeout_s
            raise _CallError("timeout", f"no reply in {limit:g} s (judge.timeout_s)") from None
        except openai.OpenAIError as error:
            raise _classified(error, self._settings.model) from error
        except ValueError as error:
            raise _CallError("parse", f"{error}") from error
        except Exception as error:  # an unforeseen error must cost one sample, not the run
            raise _CallError("other", f"{type(error).__name__}: {error}") from error


def make_openai_judge(
    settings: JudgeSettings,
    slots: Slots,
    env: Mapping[str, str],
    backoff: Backoff | None = None,
) -> ApiJudge:
    """A judge behind OpenAI's protocol; UsageError without credentials."""
    credentials = find_credentials(settings, env)
    default = get_provider(settings.provider).default_base_url
    client = openai.AsyncOpenAI(
        base_url=credentials.endpoint or default,
        api_key=credentials.key,
        timeout=settings.timeout_s,
        max_retries=0,
        http_client=_http_client(),
    )
    return ApiJudge(client, settings, slots, backoff)


def make_azure_judge(settings: JudgeSettings, slots: Slots, env: Mapping[str, str]) -> ApiJudge:
    """A judge behind Azure OpenAI; UsageError without credentials."""
    credentials = find_credentials(settings, env)
    client = openai.AsyncAzureOpenAI(
        azure_endpoint=credentials.endpoint or "",
        api_key=credentials.key,
        api_version=credentials.api_version or DEFAULT_AZURE_VERSION,
        timeout=settings.timeout_s,
        max_retries=0,
        http_client=_http_client(),
    )
    return ApiJudge(client, settings, slots)


def _http_client() -> openai.DefaultAsyncHttpxClient:
    # A redirect to another host would take Azure's key along.
    return openai.DefaultAsyncHttpxClient(follow_redirects=False)


def _completion(raw: Any) -> Any:
    """The completion of a response; ReplyError quotes anything else."""
    text = raw.http_response.text
    try:
        reply = raw.parse()
    except ValueError as error:  # the client accepts bodies that are not JSON
        raise ReplyError(f"the reply is not JSON: {shortened(text)}") from error
    if not getattr(reply, "choices", None):
        raise ReplyError(f"the reply has no choices: {shortened(text)}")
    return reply


def _content(reply: Any) -> str:
    choices = reply.choices
    content = getattr(choices[0].message, "content", None)
    if not content:
        reason = choices[0].finish_reason
        hint = "; raise judge.max_tokens" if reason == "length" else ""
        raise ReplyError(f"the reply has no content (finish_reason {reason}{hint})")
    return str(content)


def _refuse_page(response: Any) -> None:
    """_CallError for a web page where an API was expected.

    Only the host of the address is shown, because a path may contain a key. Servers that fail or
    limit calls also answer with pages; those calls are retried.
    """
    is_html = response.headers.get("content-type", "").lower().startswith("text/html")
    if response.status_code == 429 or response.status_code >= 500:
        return
    if not is_html and not response.text.lstrip("\ufeff \t\r\n").startswith("<"):
        return
    host = response.url.netloc.decode(errors="replace").rpartition("@")[2]
    status = response.status_code
    # The page of a proxy that is starting may go away; the page for a wrong address will not.
    kind: ErrorKind = "parse" if status < 400 else "other"
    raise _CallError(kind, f"{host} answers with a web page, not an API (status {status})")


def _classified(error: openai.OpenAIError, model: str) -> _CallError:
    response = error.response if isinstance(error, openai.APIStatusError) else None
    if response is not None:
        _refuse_page(response)
    message = " ".join(str(error).split())
    code = error.code if isinstance(error, openai.APIError) else None
    if code and code not in message:  # e.g. insufficient_quota or content_filter
        message = f"{message} ({code})"
    if response is not None and response.is_redirect:
        # The host alone, because the rest of an address may contain a key.
        host = ""
        with suppress(ValueError):
            host = urlsplit(response.headers["location"]).netloc.rpartition("@")[2]
        message = f"{message}: the address redirects to {host or 'another path'}"
    if isinstance(error, openai.NotFoundError):
        # A server without the path of the request names no model in its 404.
        text = error.response.text.lower()
        if not any(word in text for word in (model.lower(), "model", "deployment")):
            return _CallError("other", f"the address has no such path: {message}")
        message = f"model '{model}' was not found: {message}"
    return _CallError(_kind(error), message, _retry_after(error))


def _kind(error: openai.OpenAIError) -> ErrorKind:
    if isinstance(error, openai.APIConnectionError):
        return "connection"
    if isinstance(error, openai.APIResponseValidationError):
        return "parse"
    status = error.status_code if isinstance(error, openai.APIStatusError) else 0
    kinds: dict[int, ErrorKind] = {
        401: "auth",
        402: "auth",
        403: "auth",
        404: "not_found",
        408: "timeout",
        429: "rate_limit",
    }
    return kinds.get(status, "server" if status >= 500 else "other")


def _retry_after(error: openai.OpenAIError) -> float | None:
    if not isinstance(error, openai.APIStatusError):
        return None
    try:
        return max(0.0, float(error.response.headers.get("retry-after", "")))
    except ValueError:
        return None
