"""Which addresses are one client."""

from __future__ import annotations

import pytest

from spacy_pel.serve.clients import client_at


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("a name", "a name"),
    ],
)
def test_an_address_is_a_client_and_of_ipv6_its_network(host: str, name: str) -> None:
    assert client_at((host, 5000)) == client_at((host, 5001)) == name


def test_without_an_address_all_are_one_client() -> None:
    assert client_at(None) == ""
