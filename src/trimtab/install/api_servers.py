"""The addresses of a cluster's API servers, for the NetworkPolicy of the webhooks.

Every API server publishes its address in the EndpointSlice of the Service `kubernetes` in `default` (older clusters: in
Endpoints). Usually it calls webhooks from that address. Where it reaches pods through a proxy, as many managed control
planes do (Konnectivity), calls come from the proxy's pods or nodes; then a CIDR has to be given.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import untyped

_SLICES = untyped("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
_ENDPOINTS = untyped("v1", "Endpoints", "endpoints")
_NAMESPACE, _SERVICE = "default", "kubernetes"


async def ranges(client: Client) -> tuple[str, ...]:
    """The address of each API server as a CIDR, in order; none if the cluster has no such object."""
    found = set(_ranges(await _addresses(client)))
    return tuple(str(each) for each in sorted(found, key=lambda each: (each.version, each.network_address.packed)))


async def _addresses(client: Client) -> list[str]:
    try:
        selector = f"kubernetes.io/service-name={_SERVICE}"
        slices = await client.list(_SLICES, namespace=_NAMESPACE, label_selector=selector)
        found = [address for each in slices.items for address in _in_slice(each)]
    except NotFound:  # the kind is not served
        found = []
    if found:
        return found
    try:
        return list(_in_endpoints(await client.get(_ENDPOINTS, _SERVICE, namespace=_NAMESPACE)))
    except NotFound:
        return []


def _in_slice(tree: JSON) -> Iterator[str]:
    for endpoint in tree.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False:
            yield from endpoint.get("addresses") or ()


def _in_endpoints(tree: JSON) -> Iterator[str]:
    for subset in tree.get("subsets") or ():
        yield from (address["ip"] for address in subset.get("addresses") or ())


def _ranges(addresses: Iterable[str]) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Single addresses as CIDRs. A loopback address is that of every machine, and says nothing."""
    for text in addresses:
        address = ipaddress.ip_address(text)
        if not address.is_loopback:
            yield ipaddress.ip_network(address)
