"""Defaults of containers, and the rounding of resource amounts."""

from __future__ import annotations

import re
from functools import lru_cache

from trimtab.api import quantities
from trimtab_lab.apiserver.storage.store import Tree

_NAME_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?:(?P<host>{_HOST})/)?{_NAME_PART}(?:/{_NAME_PART})*(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """`Always` for the tag `latest`, stated or implied; an image name that cannot be parsed has no tag."""
    match = _IMAGE.fullmatch(image)
    if match is None or _IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def default_container(container: Tree) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            _variable_source(variable["valueFrom"])
    round_resources(container.get("resources"))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _probe(container[probe])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _http_get(handler)


def _variable_source(source: Tree) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def _probe(probe: Tree) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    _http_get(probe)
    if "grpc" in probe:
        probe["grpc"]["service"] = probe["grpc"].get("service") or ""


def _http_get(handler: Tree) -> None:
    get = handler.get("httpGet")
    if get is not None:
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def round_resources(resources: Tree | None) -> None:
    """Round amounts up to thousandths."""
    for amounts in (resources.get("requests"), resources.get("limits")) if resources else ():
        if amounts:
            round_amounts(amounts)


def round_amounts(amounts: dict[str, str]) -> None:
    for name, amount in amounts.items():
        if amount[-1:] in "nu":
            amounts[name] = _rounded(amount)


@lru_cache(maxsize=1024)
def _rounded(amount: str) -> str:
    quantity = quantities.parse(amount)
    return quantities.parse(f"{quantity.milli_value()}m").canonical
