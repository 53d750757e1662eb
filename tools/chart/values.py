"""The values of the chart, and their JSON schema.

`configuration` takes the fields of a TrimtabConfiguration that no other value sets; its schema is generated from the
types, so that Helm refuses what `trimtab run` would refuse, and says where.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.documents import JSON

_TEXT = """\
# The values of the chart. values.schema.json has what each may be; Helm checks it.

image:
  repository: trimtab
  tag: "" # the version of the chart, if empty
  digest: "" # sha256:…, instead of a tag

# Processes of each component.
replicas: 2

components:
  scheduler: true
  webhooks: true
  controllers: true

# The mode of every default policy. observe: scale-downs are planned and reported, and nothing is written to pods;
# enforce: workloads are kept level; "": as in configuration.scaleDown.defaultPolicies.
mode: observe

# The namespaces that Trimtab manages; empty for all. It then writes in these only.
namespaces: []

# Deny changes of costs by others in namespaces labelled trimtab.dev/protect-costs=true, instead of a warning.
denyCostChanges: false

# Let users who may edit in a namespace write PodGroupCosts there, which decide which pods are deleted first.
groupCostEdits: false

# The CIDRs that API servers call the webhooks from; empty for any.
apiServerCidrs: []

# Whether the kind CloneSet is Trimtab's, and validated: auto looks for OpenKruise's definition; or true, or false.
cloneSets: auto

certificates:
  # Managed: created and renewed by Trimtab; CertManager: by cert-manager, which must run; Files: mounted by you.
  source: Managed
  # The issuer of cert-manager: name, kind, group; one that signs itself, if empty.
  issuer: {}
  # Only for Files: the paths, and the CA bundle (PEM) by which API servers trust the certificate.
  certificateFile: ""
  keyFile: ""
  caBundle: ""

# Any other field of the configuration, as in docs/configuration.md.
configuration:
  scaleDown:
    defaultPolicies:
      - name: level
  logs:
    format: json
"""

ELSEWHERE = {
    "TrimtabConfiguration": ("apiVersion", "kind", "components", "namespace", "namespaces", "serving"),
    "Webhooks": ("host", "port", "service", "registeredAs", "url", "certificates"),
}
"""Fields of the configuration that the chart sets, by their type."""


def text() -> str:
    """The file `values.yaml`."""
    return _TEXT


def schema() -> str:
    """The file `values.schema.json`."""
    return json.dumps(_schema(), indent=2, ensure_ascii=False) + "\n"


def _schema() -> JSON:
    (reference,), definitions = msgspec.json.schema_components([TrimtabConfiguration], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the Trimtab chart",
        **_object(
            image=_object(
                repository=_string(minLength=1), tag=_string(), digest=_string(pattern="^(sha256:[0-9a-f]{64})?$")
            ),
            replicas={"type": "integer", "minimum": 1},
            components=_components(),
            mode={"enum": ["observe", "enforce", ""]},
            namespaces=_list(_string(pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")),
            denyCostChanges={"type": "boolean"},
            groupCostEdits={"type": "boolean"},
            apiServerCidrs=_list(_string(pattern="^[0-9a-fA-F.:]+/[0-9]+$")),
            cloneSets={"enum": ["auto", True, False]},
            certificates=_certificates(),
            configuration=reference,
            **{"global": {"type": "object"}},  # what a chart gets as part of another one
        ),
        "$defs": {name: _closed(name, tree) for name, tree in definitions.items()},
    }


def _components() -> JSON:
    names = ("scheduler", "webhooks", "controllers")
    some = [{"properties": {name: {"const": True}}, "required": [name]} for name in names]
    return _object(**{name: {"type": "boolean"} for name in names}) | {"anyOf": some}


def _certificates() -> JSON:
    """Files need paths, and only cert-manager has issuers."""
    issuer = _object(name=_string(), kind=_string(), group=_string()) | {"dependentRequired": {"kind": ["name"]}}
    tree = _object(
        source={"enum": ["Managed", "CertManager", "Files"]},
        issuer=issuer,
        certificateFile=_string(),
        keyFile=_string(),
        caBundle=_string(),
    )
    files = ("certificateFile", "keyFile")
    given, absent = {name: _string(minLength=1) for name in files}, {name: _string(maxLength=0) for name in files}
    return tree | {
        "if": {"properties": {"source": {"const": "Files"}}},
        "then": {"properties": given, "required": list(files)},
        "else": {"properties": absent | {"caBundle": _string(maxLength=0)}},
        "allOf": [
            {
                "if": {"properties": {"source": {"not": {"const": "CertManager"}}}},
                "then": {"properties": {"issuer": {"maxProperties": 0}}},
            }
        ],
    }


def _closed(name: str, tree: JSON) -> JSON:
    """A type without the fields that are set elsewhere; others are refused, as they are when the file is read."""
    if "description" in tree:
        tree = {**tree, "description": inspect.cleandoc(tree["description"])}  # as Python 3.13 stores it
    if "properties" not in tree:
        return tree
    left_out = ELSEWHERE.get(name, ())
    properties = {key: value for key, value in tree["properties"].items() if key not in left_out}
    if "costWriters" in properties:
        properties["costWriters"] = {**properties["costWriters"], "items": _string(pattern="^[^'\"\\\\]+$")}
    return {**tree, "properties": properties, "additionalProperties": False}


def _object(**properties: Any) -> JSON:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _string(**limits: Any) -> JSON:
    return {"type": "string", **limits}


def _list(items: JSON) -> JSON:
    return {"type": "array", "items": items, "uniqueItems": True}
