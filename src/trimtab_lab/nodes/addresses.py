"""IP addresses for nodes and pods: each address is allocated once, and an owner always gets the same one.

Nothing listens at these addresses. The search for a free address starts at a hash of the owner, so that two processes,
or one before and after a restart, usually agree. They need not: the address that an object already has is kept.
"""

from __future__ import annotations

import hashlib
from ipaddress import IPv4Address, IPv4Network

NODE_NETWORK = IPv4Network("172.16.0.0/12")
POD_NETWORK = IPv4Network("10.128.0.0/9")


class Addresses:
    """The allocated addresses of one network, by owner."""

    def __init__(self, network: IPv4Network) -> None:
        self._first = int(network.network_address) + 1
        self._size = network.num_addresses - 2
        self._by_owner: dict[str, str] = {}
        self._taken: set[str] = set()

    def __len__(self) -> int:
        return len(self._by_owner)

    def record(self, owner: str, address: str) -> None:
        """Record that an owner already has an address."""
        if self._by_owner.get(owner) != address:
            self.release(owner)
            self._by_owner[owner] = address
            self._taken.add(address)

    def allocate(self, owner: str) -> str:
        """Allocate an address for an owner: the one it has, or the next free one."""
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
        """Release an owner's address."""
        address = self._by_owner.pop(owner, None)
        if address is not None:
            self._taken.discard(address)
