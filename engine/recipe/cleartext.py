"""Credentials of a run that other programs would send to another host over plain http."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.base.addresses import cleartext_complaint
from engine.base.errors import UsageError
from engine.recipe.recipe import Recipe

_HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def cleartext_complaints(recipe: Recipe, env: Mapping[str, str]) -> Iterator[str]:
    """One line for each; the judge's key is not among them (``find_credentials`` refuses it)."""
    sent = [(name, "HF_ENDPOINT") for name in _HUB_TOKENS]
    loggers = recipe.get("trainer.logger") or recipe.get("logging.report_to") or []
    if "wandb" in loggers and env.get("WANDB_MODE", "online") == "online":
        sent.append(("WANDB_API_KEY", "WANDB_BASE_URL"))
    for credential, address in sent:
        if env.get(credential, "").strip():
            complaint = cleartext_complaint(f"{address}: {credential}", env.get(address, ""), env)
            if complaint:
                yield complaint
    hook = recipe.get("guard.webhook_variable")
    if hook and (complaint := cleartext_complaint(f"guard: {hook}", env.get(hook, ""), env)):
        yield complaint


def require_encrypted(recipe: Recipe, env: Mapping[str, str]) -> None:
    """Raise UsageError for the first of ``cleartext_complaints``."""
    for complaint in cleartext_complaints(recipe, env):
        raise UsageError(complaint)
