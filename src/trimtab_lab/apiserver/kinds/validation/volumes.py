"""Validation of a pod's volumes.

The sources that clusters without a cloud use are checked as in Kubernetes. Of the others (cloud disks and storage
systems) only the number is checked: a volume has exactly one source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trimtab.api import quantities
from trimtab_lab.apiserver.kinds.validation import names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    duplicate,
    each,
    forbidden,
    invalid,
    required,
    unsupported,
)
from trimtab_lab.apiserver.kinds.validation.field_references import (
    field_reference,
    no_steps_back,
    not_reserved,
    resource_reference,
)
from trimtab_lab.apiserver.storage.store import Tree

_MODE_FAULT = "must be a number between 0 and 0777 (octal), both inclusive"
# Kubernetes' order of sources: the first one is used, the others are rejected.
_SOURCES = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


def volumes(given: Sequence[Tree], causes: Causes, path: str) -> dict[str, Tree]:
    """Check all volumes; returns the valid ones by name, for mounts to refer to."""
    good: dict[str, Tree] = {}
    for index, volume in enumerate(given):
        at = f"{path}[{index}]"
        faults: Causes = []
        _source(volume, faults, at)
        name = volume.get("name", "")
        if not name:
            faults.append(required(f"{at}.name"))
        else:
            faults += each(f"{at}.name", name, names.label(name))
        if name in good:
            faults.append(duplicate(f"{at}.name", name))
        if faults:
            causes += faults
        else:
            good[name] = volume
    return good


def _source(volume: Tree, causes: Causes, path: str) -> None:
    if len(volume) == 2 and "emptyDir" in volume and not volume["emptyDir"]:
        return
    first = ""
    for name in _SOURCES:
        if name not in volume:
            continue
        if first:
            causes.append(forbidden(f"{path}.{name}", "may not specify more than 1 volume type"))
            continue
        first = name
        check = _CHECKS.get(name)
        if check is not None:
            check(volume[name], causes, f"{path}.{name}")
    if not first:
        causes.append(required(path, "must specify a volume type"))


def _empty_dir(source: Tree, causes: Causes, path: str) -> None:
    if "sizeLimit" in source and quantities.parse(source["sizeLimit"]).sign < 0:
        causes.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def _host_path(source: Tree, causes: Causes, path: str) -> None:
    if not source.get("path"):
        causes.append(required(f"{path}.path"))
        return
    no_steps_back(source["path"], causes, f"{path}.path")
    if source.get("type", "") not in _HOST_PATH_TYPES:
        causes.append(unsupported(f"{path}.type", source["type"], _HOST_PATH_TYPES))


def _secret(source: Tree, causes: Causes, path: str) -> None:
    if not source.get("secretName"):
        causes.append(required(f"{path}.secretName"))
    _items(source, causes, path)


def _config_map(source: Tree, causes: Causes, path: str) -> None:
    if not source.get("name"):
        causes.append(required(f"{path}.name"))
    _items(source, causes, path)


def _items(source: Tree, causes: Causes, path: str) -> None:
    _mode(source, "defaultMode", causes, path)
    for index, item in enumerate(source.get("items") or ()):
        _key_to_path(item, causes, f"{path}.items[{index}]")


def _key_to_path(item: Tree, causes: Causes, path: str) -> None:
    if not item.get("key"):
        causes.append(required(f"{path}.key"))
    if not item.get("path"):
        causes.append(required(f"{path}.path"))
    not_reserved(item.get("path", ""), causes, f"{path}.path")
    _mode(item, "mode", causes, path)


def _mode(holder: Tree, field: str, causes: Causes, path: str) -> None:
    if not 0 <= holder.get(field, 0) <= 0o777:
        causes.append(invalid(f"{path}.{field}", holder[field], _MODE_FAULT))


def _claim(source: Tree, causes: Causes, path: str) -> None:
    if not source.get("claimName"):
        causes.append(required(f"{path}.claimName"))


def _nfs(source: Tree, causes: Causes, path: str) -> None:
    for field in ("server", "path"):
        if not source.get(field):
            causes.append(required(f"{path}.{field}"))
    if not source.get("path", "").startswith("/"):
        causes.append(invalid(f"{path}.path", source.get("path", ""), "must be an absolute path"))


def _csi(source: Tree, causes: Causes, path: str) -> None:
    if not source.get("driver"):
        causes.append(required(f"{path}.driver"))


def _ephemeral(source: Tree, causes: Causes, path: str) -> None:
    if "volumeClaimTemplate" not in source:
        causes.append(required(f"{path}.volumeClaimTemplate"))


def _image(source: Tree, causes: Causes, path: str) -> None:
    if not source.get("reference"):
        causes.append(required(f"{path}.reference"))


def _downward(source: Tree, causes: Causes, path: str) -> None:
    _mode(source, "defaultMode", causes, path)
    for item in source.get("items") or ():
        _downward_file(item, causes, path)


_FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")


def _downward_file(item: Tree, causes: Causes, path: str) -> None:
    if not item.get("path"):
        causes.append(required(f"{path}.path"))
    not_reserved(item.get("path", ""), causes, f"{path}.path")
    if "fieldRef" in item:
        field_reference(item["fieldRef"], _FILE_FIELDS, causes, f"{path}.fieldRef")
        if "resourceFieldRef" in item:
            fault = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid(path, "resource", fault))
    elif "resourceFieldRef" in item:
        resource_reference(item["resourceFieldRef"], causes, f"{path}.resourceFieldRef", of_file=True)
    else:
        causes.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    _mode(item, "mode", causes, path)


def _projected(source: Tree, causes: Causes, path: str) -> None:
    _mode(source, "defaultMode", causes, path)
    taken: set[str] = set()
    for index, part in enumerate(source.get("sources") or ()):
        _projection(part, taken, causes, path, f"{path}.sources[{index}]")


def _projection(part: Tree, taken: set[str], causes: Causes, path: str, at: str) -> None:
    for kind in ("secret", "configMap"):
        if kind in part:
            if not part[kind].get("name"):
                causes.append(required(f"{at}.{kind}.name"))
            for index, item in enumerate(part[kind].get("items") or ()):
                _key_to_path(item, causes, f"{at}.{kind}.items[{index}]")
                _take(item.get("path"), part[kind].get("name", ""), taken, causes, path)
    for item in (part.get("downwardAPI") or {}).get("items") or ():
        _downward_file(item, causes, f"{at}.downwardAPI")
        _take(item.get("path"), item.get("path"), taken, causes, path)
    if "serviceAccountToken" in part:
        _token(part["serviceAccountToken"], causes, path, f"{at}.serviceAccountToken")
    if len(part) > 1:
        causes.append(forbidden(at, "may not specify more than 1 volume type per source"))


def _take(name: str | None, shown: str | None, taken: set[str], causes: Causes, path: str) -> None:
    if name and name in taken:
        causes.append(invalid(path, shown, "conflicting duplicate paths"))
    if name:
        taken.add(name)


def _token(token: Tree, causes: Causes, path: str, at: str) -> None:
    seconds = token.get("expirationSeconds", 3600)
    if seconds < 600:
        fault = "may not specify a duration less than 10 minutes"
        causes.append(invalid(f"{at}.expirationSeconds", seconds, fault))
    if seconds > 2**32:
        fault = "may not specify a duration larger than 2^32 seconds"
        causes.append(invalid(f"{at}.expirationSeconds", seconds, fault))
    if not token.get("path"):
        causes.append(required(f"{path}.path"))
    else:
        not_reserved(token["path"], causes, f"{path}.path")


_CHECKS: Mapping[str, Callable[[Tree, Causes, str], None]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "nfs": _nfs,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
    "downwardAPI": _downward,
    "projected": _projected,
}
