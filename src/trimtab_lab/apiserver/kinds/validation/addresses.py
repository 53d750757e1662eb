"""Validation of IP addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from trimtab_lab.apiserver.kinds.validation.causes import Causes, invalid
from trimtab_lab.apiserver.storage.store import Tree

_ADDRESS_FAULT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_RANGE_FAULT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def family(text: str) -> int:
    """4 or 6; 0 if the text is not an address."""
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return 0


def address(text: str, causes: Causes, path: str) -> None:
    if not family(text):
        causes.append(invalid(path, text, _ADDRESS_FAULT))


def network(text: str, causes: Causes, path: str) -> None:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        causes.append(invalid(path, text, _RANGE_FAULT))


def one_a_family(addresses: Sequence[Tree], causes: Causes, path: str) -> None:
    """The addresses of a pod or of its host: one, or one of each family."""
    for index, held in enumerate(addresses):
        address(held.get("ip", ""), causes, f"{path}[{index}]")
    families = [family(held.get("ip", "")) for held in addresses]
    if len(families) > 1 and sorted(families) != [4, 6]:
        shown = [{"IP": held.get("ip", "")} for held in addresses]
        causes.append(invalid(path, shown, "may specify no more than one IP for each IP family"))
