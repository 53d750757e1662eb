"""Validation of ConfigMaps, Secrets and service accounts."""

from __future__ import annotations

import base64
import json

from trimtab_lab.apiserver.kinds.validation import metadata, names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    each,
    forbidden,
    immutable,
    invalid,
    required,
    too_long,
)
from trimtab_lab.apiserver.storage.store import Tree

_LARGEST_DATA = 1024 * 1024


def service_account(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    if old is not None:
        metadata.validate_update(tree["metadata"], old["metadata"], causes)
    metadata.validate_create(tree["metadata"], causes, namespaced=True, name=names.subdomain)


def config_map(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    if old is not None:
        metadata.validate_update(tree["metadata"], old["metadata"], causes)
        _frozen(tree, old, ("data", "binaryData"), causes)
    metadata.validate_create(tree["metadata"], causes, namespaced=True, name=names.subdomain)
    data, binary = tree.get("data") or {}, tree.get("binaryData") or {}
    for key in data:
        causes += each(f"data[{key}]", key, names.config_key(key))
        if key in binary:
            causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binary:
        causes += each(f"binaryData[{key}]", key, names.config_key(key))
    size = sum(len(text.encode()) for text in data.values()) + sum(map(_decoded_size, binary.values()))
    if size > _LARGEST_DATA:
        causes.append(too_long("", _LARGEST_DATA))


def _decoded_size(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=")


def _frozen(tree: Tree, old: Tree, fields: tuple[str, ...], causes: Causes) -> None:
    if not old.get("immutable"):
        return
    fault = "field is immutable when `immutable` is set"
    if not tree.get("immutable"):
        causes.append(forbidden("immutable", fault))
    for field in fields:
        if (tree.get(field) or {}) != (old.get(field) or {}):
            causes.append(forbidden(field, fault))


_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_SECRETS = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
_TOKEN_ACCOUNT = "kubernetes.io/service-account.name"  # noqa: S105 – the name of an annotation


def secret(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    if old is not None:
        metadata.validate_update(tree["metadata"], old["metadata"], causes)
        causes += immutable("type", tree.get("type", ""), old.get("type", ""))
        _frozen(tree, old, ("data",), causes)
    metadata.validate_create(tree["metadata"], causes, namespaced=True, name=names.subdomain)
    data = tree.get("data") or {}
    for key in data:
        causes += each(f"data[{key}]", key, names.config_key(key))
    if sum(map(_decoded_size, data.values())) > _LARGEST_DATA:
        causes.append(too_long("data", _LARGEST_DATA))
    _secret_type(tree, data, causes)


def _secret_type(tree: Tree, data: Tree, causes: Causes) -> None:
    kind = tree.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        if not (tree["metadata"].get("annotations") or {}).get(_TOKEN_ACCOUNT):
            causes.append(required(f"metadata.annotations[{_TOKEN_ACCOUNT}]"))
    elif kind == "kubernetes.io/basic-auth" and "username" not in data and "password" not in data:
        causes += [required("data[username]"), required("data[password]")]
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            causes.append(required(f"data[{key}]"))
        elif kind in _JSON_SECRETS and not _is_json_object(data[key]):
            causes.append(invalid(f"data[{key}]", "<secret contents redacted>", "unexpected end of JSON input"))


def _is_json_object(encoded: str) -> bool:
    try:
        return isinstance(json.loads(base64.b64decode(encoded)), dict)
    except ValueError:
        return False
