"""Translate scripts of verl and configs of other trainers into configs, key by key."""
