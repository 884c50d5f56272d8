"""The ``judge`` section of a config, and the judge that it names."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from engine.base.errors import UsageError
from engine.base.judge_providers import expected_names, find_provider, get_provider

if TYPE_CHECKING:
    from engine.reward.judge.interface import Judge


def _known(name: str) -> str:
    if find_provider(name) is None:
        raise PydanticCustomError("judge_provider", "{expected}", {"expected": expected_names()})
    return name


Provider = Annotated[str, AfterValidator(_known)]
"""A name of the table in ``engine.base.judge_providers``."""


class JudgeSettings(BaseModel):
    """The judge that scores the answers, and the limits of its calls."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    provider: Provider = "offline"
    """Whose API is called; offline needs no network."""
    model: str = "gpt-4o-mini"
    """Model name as the provider calls it."""
    base_url: str | None = None
    """Address of the API; null: that of the provider."""
    max_concurrent: int = Field(10, ge=1)
    """Concurrent calls of all reward workers together."""
    timeout_s: float = Field(60.0, gt=0)
    """Seconds of one call; reasoning models need about 300."""
    max_attempts: int = Field(4, ge=1)
    """Attempts of a call that fails temporarily; four survive an outage of 40 s."""
    max_tokens: int = Field(4000, ge=1)
    """Tokens that the judge may generate in one call."""
    temperature: float = Field(1.0, ge=0)
    """Sampling temperature of the judge."""
    usd_per_million_in: float | None = Field(None, ge=0)
    """Price of a million input tokens; null: unknown, so no cost is estimated."""
    usd_per_million_out: float | None = Field(None, ge=0)
    """Price of a million output tokens, including those of reasoning."""


def make_judge(settings: JudgeSettings, slots_dir: Path | None, env: Mapping[str, str]) -> Judge:
    """Return the judge that ``settings`` names. UsageError if credentials are missing.

    All processes that pass the same ``slots_dir`` share ``settings.max_concurrent``
    concurrent calls; None limits this process alone.
    """
    # Every command that reads a config needs the settings, few need asyncio.
    from engine.reward.judge.slots import make_slots

    slots = make_slots(slots_dir, settings.max_concurrent)
    path = get_provider(settings.provider).judge
    module, _, function = path.partition(":")
    try:
        make = getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        problem = f"judge.provider={settings.provider} needs the package {error.name}"
        raise UsageError(f"{problem}. Install it: pip install {error.name}") from error
    except (ImportError, AttributeError) as error:
        problem = f"judge.provider={settings.provider}: {path} cannot be loaded"
        raise UsageError(f"{problem}: {type(error).__name__}: {error}") from error
    judge: Judge = make(settings, slots, env)
    return judge
