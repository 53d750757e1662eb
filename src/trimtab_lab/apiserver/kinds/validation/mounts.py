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


def mounts(container: Tree, volumes: dict[str, Tree], causes: Causes, path: str) -> None:
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices") or ()}
    places: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        at = f"{path}[{index}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.append(required(f"{at}.name"))
        if name not in volumes:
            causes.append(not_found(f"{at}.name", name))
        if not place:
            causes.append(required(f"{at}.mountPath"))
        if place in places:
            causes.append(invalid(f"{at}.mountPath", place, "must be unique"))
        places.add(place)
        if devices:
            _mount_beside_devices(name, place, devices, causes, at)
        if len(mount) > 2:
            _mount_options(mount, container, causes, path, at)


def _mount_beside_devices(name: str, place: str, devices: dict[str, str], causes: Causes, path: str) -> None:
    if name in devices:
        causes.append(invalid(f"{path}.name", name, "must not already exist in volumeDevices"))
    if place in devices.values():
        fault = "must not already exist as a path in volumeDevices"
        causes.append(invalid(f"{path}.mountPath", place, fault))


def _mount_options(mount: Tree, container: Tree, causes: Causes, path: str, at: str) -> None:
    """The options of a mount. Kubernetes reports them at the list instead of the mount."""
    if "subPath" in mount:
        descending(mount["subPath"], causes, f"{path}.subPath")
    if "subPathExpr" in mount:
        if "subPath" in mount:
            fault = "subPathExpr and subPath are mutually exclusive"
            causes.append(invalid(f"{at}.subPathExpr", mount["subPathExpr"], fault))
        descending(mount["subPathExpr"], causes, f"{path}.subPathExpr")
    if "mountPropagation" in mount:
        mode = mount["mountPropagation"]
        if mode not in _PROPAGATIONS:
            causes.append(unsupported(f"{path}.mountPropagation", mode, _PROPAGATIONS))
        if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            fault = "Bidirectional mount propagation is available only to privileged containers"
            causes.append(forbidden(f"{path}.mountPropagation", fault))


def devices(container: Tree, volumes: dict[str, Tree], causes: Causes, path: str) -> None:
    for index, device in enumerate(container["volumeDevices"]):
        name = device.get("name", "")
        if not name:
            causes.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            causes.append(not_found(f"{path}[{index}].name", name))
        if not device.get("devicePath"):
            causes.append(required(f"{path}[{index}].devicePath"))
