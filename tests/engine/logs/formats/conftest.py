"""Lets the tests beside it import ``samples``."""

from __future__ import annotations
