"""IP addresses for nodes and pods: each is used once, and asking again for the same thing gives the same one.

Nothing listens at any of them. Where an address starts to be looked for depends on who asks, so that two processes, or
one before and one after a restart, agree as a rule; that they must is not needed, for the address that an object
already carries always stays.
"""

from __future__ import annotations

import hashlib
from ipaddress import IPv4Address, IPv4Network

NODE_NETWORK = IPv4Network("172.16.0.0/12")
POD_NETWORK = IPv4Network("10.128.0.0/9")


class Addresses:
    """The addresses of one network: who has which."""

    def __init__(self, network: IPv4Network) -> None:
        self._first = int(network.network_address) + 1
        self._size = network.num_addresses - 2
        self._by_owner: dict[str, str] = {}
        self._taken: set[str] = set()

    def __len__(self) -> int:
        return len(self._by_owner)

    def record(self, owner: str, address: str) -> None:
        """This one has that address already."""
        if self._by_owner.get(owner) != address:
            self.release(owner)
            self._by_owner[owner] = address
            self._taken.add(address)

    def allocate(self, owner: str) -> str:
        """The address of this one: the one it has, or the next one that is free."""
        held = self._by_owner.get(owner)
        if held is not None:
            return held
        if len(self._taken) >= self._size:
            raise RuntimeError(f"all {self._size} addresses are taken")
        offset = int.from_bytes(hashlib.sha256(owner.encode()).digest()[:8], "big") % self._size
        while (address := str(IPv4Address(self._first + offset))) in self._taken:
            offset = (offset + 1) % self._size
        self.record(owner, address)
        return address

    def release(self, owner: str) -> None:
        """This one is gone."""
        address = self._by_owner.pop(owner, None)
        if address is not None:
            self._taken.discard(address)
