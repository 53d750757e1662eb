"""The proxy of a connection: `proxy-url` of the kubeconfig, or else the environment's.

`HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` have the same meaning as for kubectl: NO_PROXY lists hosts, domains with
their subdomains, addresses and networks, each with or without a port, or is `*`; connections to this machine never use
a proxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from trimtab.kube.errors import ConfigError

_SCHEMES = ("http", "https")
_PORTS = {"http": 80, "https": 443}


def check(proxy: str) -> str:
    """The address, if valid. The error never shows it: it may contain a password."""
    scheme, colon, _ = proxy.partition("://")
    if not colon or not _is_address(proxy):
        raise ConfigError("proxy-url is not a valid address; write one such as http://proxy.example.com:3128")
    if scheme not in _SCHEMES:
        raise ConfigError(f"proxy-url: {scheme} proxies are not supported; use an http or https proxy")
    return proxy


def _is_address(text: str) -> bool:
    """Whether a URL has a host, and a port that can be one."""
    try:
        address = urlsplit(text)
        return bool(address.hostname) and (address.port is None or address.port > 0)
    except ValueError:
        return False


def from_environment(server: str, environ: Mapping[str, str]) -> str:
    """The proxy that the environment sets for this server, or empty."""
    if not _is_address(server):
        return ""  # which is refused as an endpoint
    address = urlsplit(server)
    proxy = _variable(environ, f"{address.scheme}_proxy")
    if not proxy or is_bypassed(address, _variable(environ, "no_proxy")):
        return ""
    return check(proxy if "://" in proxy else f"http://{proxy}")


def is_bypassed(address: SplitResult, exceptions: str) -> bool:
    """Whether connections to a server use no proxy."""
    host = (address.hostname or "").rstrip(".")
    port = address.port or _PORTS.get(address.scheme, 0)
    if is_local(host):
        return True
    return any(_matches(host, port, entry.strip().lower()) for entry in exceptions.split(","))


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(host: str, port: int, entry: str) -> bool:
    if entry == "*":
        return True
    entry, wanted_port = _split_port(entry)
    if not entry or (wanted_port is not None and wanted_port != port):
        return False
    address = _address(host)
    if address is not None:
        return _contains(entry, address)
    domain = entry.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and not entry.startswith((".", "*.")))


def _contains(entry: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        inside, _, rest = entry[1:].partition("]")
        return inside, int(rest[1:]) if rest[1:].isdigit() else None
    host, colon, port = entry.rpartition(":")
    if colon and port.isdigit() and ":" not in host:
        return host, int(port)
    return entry, None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name, "")
