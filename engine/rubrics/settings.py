"""Settings of the judge and of the reward, as they stand in a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Provider = Literal["offline", "azure", "openai"]


class JudgeSettings(BaseModel):
    """Who scores the answers, and how patiently.

    ``max_concurrent`` bounds the calls in flight of all reward workers together. ``timeout_s`` is
    the limit of one call; reasoning models need about 300.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    provider: Provider = "offline"
    model: str = "gpt-4o-mini"
    base_url: str | None = None
    max_concurrent: int = Field(10, ge=1)
    timeout_s: float = Field(60.0, gt=0)
    max_attempts: int = Field(4, ge=1)
    max_tokens: int = Field(4000, ge=1)
    temperature: float = Field(1.0, ge=0)
    usd_per_million_in: float | None = Field(None, ge=0)
    """Price of a million tokens that the judge reads; null: unknown, so no cost is estimated."""
    usd_per_million_out: float | None = Field(None, ge=0)
    """... and that it writes, a reasoning model's thoughts included."""


class RewardSettings(BaseModel):
    """Weights of the reward's terms (see ``engine.reward.reward``).

    ``use_contrastive`` is decided when a parquet file is prepared; the file records the value
    it was made with, so a run can be checked against it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    lambda_len: float = Field(0.1, ge=0)
    lambda_info: float = Field(0.3, ge=0)
    lambda_defense: float = Field(0.3, ge=0)
    char_threshold: int = Field(3000, ge=1)
    use_contrastive: bool = True
