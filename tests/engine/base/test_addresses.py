"""Which addresses stay on this machine."""

from __future__ import annotations

import pytest

from engine.base.addresses import is_cleartext, is_loopback


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.8.7", "::1", "[::1]", "localhost", "LOCALHOST.", "a.localhost"]
)
def test_an_address_that_no_other_host_reaches(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example.org", "localhost.example.org"]
)
def test_an_address_that_others_may_reach(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("url", "crosses"),
    [
        ("http://203.0.113.5:8000/v1", True),
        ("HTTP://judge/v1", True),
        ("https://203.0.113.5/v1", False),
        ("http://127.0.0.1:8000/v1", False),
        ("http://[::1]:8000", False),
    ],
)
def test_only_http_to_another_host_crosses_a_network_in_the_clear(url: str, crosses: bool) -> None:
    assert is_cleartext(url, {}) is crosses


def test_a_network_that_is_trusted_is_named_by_its_hosts() -> None:
    env = {"GRUBRICS_ALLOW_HTTP": "head, judge.lan"}
    assert not is_cleartext("http://HEAD:8265", env)
    assert not is_cleartext("http://judge.lan/v1", env)
    assert is_cleartext("http://judge.lan.example.org/v1", env)
