"""Validation of volume mounts and volume devices."""

from __future__ import annotations

from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    forbidden,
    invalid,
    not_found,
    required,
    unsupported,
)
from trimtab_lab.apiserver.kinds.validation.field_references import (
    descending,
)
from trimtab_lab.apiserver.storage.store import Tree

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")


def mounts(container: Tree, volumes: dict[str, Tree], found: Causes, path: str) -> None:
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices") or ()}
    places: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        at = f"{path}[{index}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            found.append(required(f"{at}.name"))
        if name not in volumes:
            found.append(not_found(f"{at}.name", name))
        if not place:
            found.append(required(f"{at}.mountPath"))
        if place in places:
            found.append(invalid(f"{at}.mountPath", place, "must be unique"))
        places.add(place)
        if devices:
            _mount_beside_devices(name, place, devices, found, at)
        if len(mount) > 2:
            _mount_options(mount, container, found, path, at)


def _mount_beside_devices(name: str, place: str, devices: dict[str, str], found: Causes, path: str) -> None:
    if name in devices:
        found.append(invalid(f"{path}.name", name, "must not already exist in volumeDevices"))
    if place in devices.values():
        fault = "must not already exist as a path in volumeDevices"
        found.append(invalid(f"{path}.mountPath", place, fault))


def _mount_options(mount: Tree, container: Tree, found: Causes, path: str, at: str) -> None:
    """The options of a mount. Kubernetes reports them at the list instead of the mount."""
    if "subPath" in mount:
        descending(mount["subPath"], found, f"{path}.subPath")
    if "subPathExpr" in mount:
        if "subPath" in mount:
            fault = "subPathExpr and subPath are mutually exclusive"
            found.append(invalid(f"{at}.subPathExpr", mount["subPathExpr"], fault))
        descending(mount["subPathExpr"], found, f"{path}.subPathExpr")
    if "mountPropagation" in mount:
        mode = mount["mountPropagation"]
        if mode not in _PROPAGATIONS:
            found.append(unsupported(f"{path}.mountPropagation", mode, _PROPAGATIONS))
        if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            fault = "Bidirectional mount propagation is available only to privileged containers"
            found.append(forbidden(f"{path}.mountPropagation", fault))


def devices(container: Tree, volumes: dict[str, Tree], found: Causes, path: str) -> None:
    for index, device in enumerate(container["volumeDevices"]):
        name = device.get("name", "")
        if not name:
            found.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            found.append(not_found(f"{path}[{index}].name", name))
        if not device.get("devicePath"):
            found.append(required(f"{path}[{index}].devicePath"))
