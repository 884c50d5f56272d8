"""The same examples in every run: a property test fails for everybody or for nobody. No hub is
asked for a model."""

from __future__ import annotations

import os

from hypothesis import settings

os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")
