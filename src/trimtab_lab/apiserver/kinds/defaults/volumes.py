"""Defaults of volumes and volume claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trimtab_lab.apiserver.kinds.defaults.containers import pull_policy, round_resources
from trimtab_lab.apiserver.storage.store import Tree

_MODE = 0o644


def default_volume(volume: Tree) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for name, source in volume.items():
        fill = _VOLUME_SOURCES.get(name)
        if fill is not None:
            fill(source)


def _mode(source: Tree) -> None:
    source.setdefault("defaultMode", _MODE)


def _downward_items(source: Tree) -> None:
    for item in source.get("items") or ():
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _downward(source: Tree) -> None:
    _mode(source)
    _downward_items(source)


def _projected(source: Tree) -> None:
    _mode(source)
    for part in source.get("sources") or ():
        if "downwardAPI" in part:
            _downward_items(part["downwardAPI"])
        if "serviceAccountToken" in part:
            part["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _ephemeral(source: Tree) -> None:
    if "volumeClaimTemplate" in source:
        default_claim_spec(source["volumeClaimTemplate"].setdefault("spec", {}))


def default_claim_spec(spec: Tree) -> None:
    spec.setdefault("volumeMode", "Filesystem")
    round_resources(spec.get("resources"))


def _image(source: Tree) -> None:
    source.setdefault("pullPolicy", pull_policy(source.get("reference") or ""))


def _filler(**values: Any) -> Callable[[Tree], None]:
    def fill(source: Tree) -> None:
        for name, value in values.items():
            source.setdefault(name, value)

    return fill


_VOLUME_SOURCES: Mapping[str, Callable[[Tree], None]] = {
    "secret": _mode,
    "configMap": _mode,
    "downwardAPI": _downward,
    "projected": _projected,
    "ephemeral": _ephemeral,
    "image": _image,
    "hostPath": _filler(type=""),
    "iscsi": _filler(iscsiInterface="default"),
    "rbd": _filler(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": _filler(cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"),
    "scaleIO": _filler(storageMode="ThinProvisioned", fsType="xfs"),
}
