"""What may leave the machine: texts without secrets, control characters and paths of a home."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from msgspec import Struct, structs

from engine.base.errors import UsageError
from engine.base.masking import MASK, holds_credentials, mask, mask_text
from engine.base.text import visible_text
from engine.config.secrets import refuse_secret
from engine.run.manifest import FullManifest, Manifest

T = TypeVar("T")

_HEAD, _TAIL = 2_400, 1_200
"""Characters of a long text that are shown of its beginning and of its end."""
_AHEAD = 16 << 10
"""Characters beside them that are searched for secrets: a secret begins or ends in them."""
_WORD = re.compile(r"[^\s\"'<>(),;\\]{6,4000}")
"""A backslash begins the escape of a line break in a quoted text."""


@dataclass(frozen=True)
class Publisher:
    """``projects``: the working directories of the runs, which are left out of paths. ``home`` is
    written as ``~``; none if empty."""

    projects: tuple[str, ...] = ()
    home: str = ""

    @classmethod
    def of(cls, manifests: Sequence[Manifest]) -> Publisher:
        folders = {(manifest.cwd or "").rstrip("/") for manifest in manifests}
        folders.add(str(Path.cwd()))
        longest_first = sorted((f for f in folders if len(f) > 1), key=lambda f: (-len(f), f))
        home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - Path.home() fails without one
        return cls(tuple(longest_first), "" if home == "~" else home)

    def text(self, text: str) -> str:
        """The text as it may be published."""
        masked = _WORD.sub(_without_credentials, mask_text(visible_text(text)))
        for folder in self.projects:
            masked = masked.replace(f"{folder}/", "")
        return masked.replace(f"{self.home}/", "~/") if self.home else masked

    def all(self, value: T) -> T:
        """``value`` with every text in it, at any depth of tuples and records, published."""
        if isinstance(value, str):
            return cast(T, self.text(value))
        if isinstance(value, tuple):
            return cast(T, tuple(map(self.all, value)))
        if is_dataclass(value) and not isinstance(value, type):
            named = {field.name: self.all(getattr(value, field.name)) for field in fields(value)}
            return cast(T, replace(value, **named))
        if isinstance(value, Struct):
            named = {name: self.all(getattr(value, name)) for name in value.__struct_fields__}
            return cast(T, msgspec.structs.replace(value, **named))
        return value

    def excerpt(self, text: str) -> str:
        """Beginning and end of a long text. Secrets are masked before it is cut."""
        if len(text) <= 2 * (_HEAD + _AHEAD):
            head = tail = self.text(text)
        else:
            head, tail = self.text(text[: _HEAD + _AHEAD]), self.text(text[-_TAIL - _AHEAD :])
        if len(text) <= _HEAD + _TAIL or (head is tail and len(head) <= _HEAD + _TAIL):
            return head
        left_out = f"[{len(text) - _HEAD - _TAIL:,} characters are left out]"
        return f"{head[:_HEAD]}\n\n{left_out}\n\n{tail[-_TAIL:]}"


def published_manifest(manifest: FullManifest) -> FullManifest:
    """A manifest whose config values, changes and base values hold no secret.

    A value is replaced where a config with it would be refused. Texts are still to be published.
    """
    config = {
        key: structs.replace(setting, value=published_value(key, setting.value))
        for key, setting in manifest.config.items()
    }
    changes = [
        structs.replace(
            change,
            before=published_value(change.key, change.before),
            after=published_value(change.key, change.after),
        )
        for change in manifest.changes
    ]
    return structs.replace(manifest, config=config, changes=changes)


def published_value(key: str, value: object) -> object:
    """The value of a config key; a mask in place of one that a config must not hold."""
    try:
        refuse_secret("", key, value)
    except UsageError:
        return mask(value) if isinstance(value, str) else MASK
    return value


def _without_credentials(match: re.Match[str]) -> str:
    """A word, or a mask if it is an address with a login or a key in it."""
    word = match.group()
    return MASK if MASK not in word and holds_credentials(word) else word
