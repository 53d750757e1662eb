"""Addresses: one for each, and each once."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab_lab.nodes.addresses import POD_NETWORK, Addresses

SMALL = IPv4Network("10.0.0.0/28")


@given(st.lists(st.text(), unique=True, max_size=14))
def test_no_two_owners_share_an_address(owners: list[str]) -> None:
    """As long as there are enough, each owner has an address of the network."""
    addresses = Addresses(SMALL)
    taken = [addresses.allocate(owner) for owner in owners]
    assert len(set(taken)) == len(owners)
    assert all(IPv4Address(address) in SMALL for address in taken)


def test_asking_again_gives_the_same() -> None:
    """In this process and in another."""
    addresses = Addresses(POD_NETWORK)
    assert addresses.allocate("a") == addresses.allocate("a") == Addresses(POD_NETWORK).allocate("a")


def test_an_address_that_is_in_use_is_not_given_away() -> None:
    """A recorded address is not allocated to another owner."""
    wanted = Addresses(SMALL).allocate("a")
    addresses = Addresses(SMALL)
    addresses.record("b", wanted)
    assert addresses.allocate("a") != wanted
    assert addresses.allocate("b") == wanted


def test_an_address_comes_back() -> None:
    """When its owner is gone, another one may have it."""
    addresses = Addresses(SMALL)
    first = addresses.allocate("a")
    addresses.release("a")
    addresses.release("a")
    assert len(addresses) == 0
    assert addresses.allocate("a") == first


def test_there_may_be_no_more() -> None:
    """An error, instead of an endless search."""
    addresses = Addresses(SMALL)
    for number in range(14):
        addresses.allocate(str(number))
    with pytest.raises(RuntimeError, match="all 14"):
        addresses.allocate("one more")
