"""Validation of CustomResourceDefinitions: names, versions, schemas, columns, subresources, conversion.

What all versions have in common is reported under its top-level path: an error in the schema of a definition with one
version is at `spec.validation.openAPIV3Schema…`, not at `spec.versions[0].schema.openAPIV3Schema…`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trimtab_lab.apiserver.kinds.printers.jsonpaths import JSONPath
from trimtab_lab.apiserver.kinds.schemas import structure
from trimtab_lab.apiserver.kinds.validation import metadata, names, webhooks
from trimtab_lab.apiserver.kinds.validation.causes import (
    Cause,
    Causes,
    forbidden,
    immutable,
    invalid,
    required,
    unsupported,
)
from trimtab_lab.apiserver.storage.store import Tree

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_PROTECTED = ("k8s.io", "kubernetes.io")
_APPROVED = "api-approved.kubernetes.io"


def definition(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    if old is None:
        metadata.validate_create(tree["metadata"], causes, namespaced=False, name=_name_form(spec), finalizers=False)
    else:
        metadata.validate_update(tree["metadata"], old["metadata"], causes, finalizers=False)
    causes += _spec(spec)
    if old is not None:
        causes += _changes(spec, old)
    causes += _names(tree["status"].get("acceptedNames") or {}, "status.acceptedNames")
    causes += _stored_versions(tree["status"].get("storedVersions") or [], spec.get("versions") or [])
    causes += _approval(tree, old)
    if spec.get("preserveUnknownFields"):
        rule = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.append(invalid("spec.preserveUnknownFields", True, rule))


def definition_status(tree: Tree, old: Tree, causes: Causes) -> None:
    metadata.validate_update(tree["metadata"], old["metadata"], causes, finalizers=False)
    causes += _names(tree["status"].get("acceptedNames") or {}, "status.acceptedNames")


def _name_form(spec: Tree) -> names.OutputFormat:
    wanted = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"

    def form(name: str) -> names.Faults:
        rule = 'must be spec.names.plural+"."+spec.group'
        return names.subdomain(name) if name == wanted else (*names.subdomain(name), rule)

    return form


def _spec(spec: Tree) -> Iterator[Cause]:
    yield from _group(spec.get("group", ""))
    scope = spec.get("scope", "")
    if scope not in ("Cluster", "Namespaced"):
        at = "spec.scope"
        yield unsupported(at, scope, ("Cluster", "Namespaced")) if scope else required(at)
    versions = spec.get("versions") or []
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    yield from _versions(versions)
    for field in ("plural", "singular", "kind", "listKind"):
        if not spec["names"].get(field):
            yield required(f"spec.names.{field}")
    yield from _names(spec["names"], "spec.names")
    yield from _parts_of_all(versions)
    yield from _conversion(spec.get("conversion") or {})


def _group(group: str) -> Iterator[Cause]:
    if not group:
        yield required("spec.group")
        return
    faults = names.subdomain(group)
    if faults:
        yield invalid("spec.group", group, ",".join(faults))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


# --- versions --------------------------------------------------------------------------------------------------------

_PARTS = ("schema", "subresources", "additionalPrinterColumns")


def _versions(versions: Sequence[Tree]) -> Iterator[Cause]:
    own = [part for part in _PARTS if not _is_common(versions, part)]
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name", "")
        faults = names.label_1035(name)
        if faults:
            yield invalid(f"{path}.name", name, ",".join(faults))
        if not version.get("deprecated") and "deprecationWarning" in version:
            rule = "can only be set for deprecated versions"
            yield invalid(f"{path}.deprecationWarning", version["deprecationWarning"], rule)
        for part in own:
            yield from _part(part, version, f"{path}.{part}")
    listed = [version.get("name", "") for version in versions]
    if len(set(listed)) != len(listed):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        rule = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", versions or None, rule)
    faults = names.label_1035(listed[0]) if listed else ()
    if faults:  # Kubernetes treats the first version as the version
        yield invalid("spec.version", listed[0], ",".join(faults))


def _is_common(versions: Sequence[Tree], part: str) -> bool:
    return all(version.get(part) == versions[0].get(part) for version in versions)


def _parts_of_all(versions: Sequence[Tree]) -> Iterator[Cause]:
    """What all versions have in common, under its top-level paths."""
    for part in _PARTS:
        if versions and _is_common(versions, part):
            yield from _part(part, versions[0], "spec.validation" if part == "schema" else f"spec.{part}")


def _part(part: str, version: Tree, path: str) -> Iterator[Cause]:
    match part:
        case "schema":
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if schema:
                if "status" in (version.get("subresources") or {}):
                    yield from structure.root_faults(schema, f"{path}.openAPIV3Schema")
                yield from structure.faults(schema, f"{path}.openAPIV3Schema")
        case "subresources":
            yield from _scale((version.get("subresources") or {}).get("scale"), f"{path}.scale")
        case _:
            for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
                yield from _column(column, f"{path}[{index}]")


def _column(column: Tree, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield required(f"{path}.name")
    type_, form, given = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
    rule = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not type_:
        yield required(f"{path}.type", rule)
    elif type_ not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", type_, rule)
    if form and form not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not given:
        yield required(f"{path}.JSONPath")
    else:
        yield from _simple_path(given, f"{path}.JSONPath")


def _simple_path(given: str, path: str) -> Iterator[Cause]:
    if not given.startswith("."):
        yield invalid(path, given, "must be a simple json path starting with .")
        return
    try:
        JSONPath(given)
    except ValueError as error:
        yield invalid(path, given, str(error))


def _scale(scale: Tree | None, path: str) -> Iterator[Cause]:
    if scale is None:
        return
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        given, at = scale.get(field, ""), f"{path}.{field}"
        if not given:
            yield required(at)
        elif not given.startswith("."):
            yield invalid(at, given, "must be a simple json path starting with .")
        elif not given.startswith(root):
            yield invalid(at, given, f"should be a json path under {root[:-1]}")
    given, at = scale.get("labelSelectorPath", ""), f"{path}.labelSelectorPath"
    if given and not given.startswith("."):
        yield invalid(at, given, "must be a simple json path starting with .")
    elif given and not given.startswith((".spec.", ".status.")):
        yield invalid(at, given, "should be a json path under either .spec or .status")


# --- names, conversion, changes --------------------------------------------------------------------------------------


def _names(given: Tree, path: str) -> Iterator[Cause]:
    for field in ("plural", "singular"):
        yield from _label(given.get(field, ""), f"{path}.{field}")
    for field in ("kind", "listKind"):
        text = given.get(field, "")
        faults = names.label_1035(text.lower()) if text else ()
        if faults:
            rule = f"may have mixed case, but should otherwise match: {','.join(faults)}"
            yield invalid(f"{path}.{field}", text, rule)
    for index, short in enumerate(given.get("shortNames") or ()):
        yield from _label(short, f"{path}.shortNames[{index}]", empty=False)
    if given.get("kind") and given["kind"] == given.get("listKind"):
        yield invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same")
    for index, category in enumerate(given.get("categories") or ()):
        yield from _label(category, f"{path}.categories[{index}]", empty=False)


def _label(text: str, path: str, *, empty: bool = True) -> Iterator[Cause]:
    faults = () if empty and not text else names.label_1035(text)
    if faults:
        yield invalid(path, text, ",".join(faults))


def _conversion(conversion: Tree) -> Iterator[Cause]:
    strategy, path = conversion.get("strategy", ""), "spec.conversion"
    if strategy == "Webhook":
        client = (conversion.get("webhook") or {}).get("clientConfig")
        if client is None:
            yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
        else:
            causes: Causes = []
            webhooks.client(client, causes, f"{path}.webhookClientConfig")
            yield from causes
        rule = "this API server converts no objects: give all versions the same schema, and the strategy None"
        yield forbidden(f"{path}.strategy", rule)
    elif strategy != "None":
        at = f"{path}.strategy"
        yield unsupported(at, strategy, ("None", "Webhook")) if strategy else required(at)
    elif "webhook" in conversion:
        rule = "should not be set when strategy is not set to Webhook"
        yield forbidden(f"{path}.webhookClientConfig", rule)


def _changes(spec: Tree, old: Tree) -> Iterator[Cause]:
    before = old["spec"]
    conditions = old["status"].get("conditions") or ()
    if any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions):
        yield from immutable("spec.scope", spec.get("scope"), before.get("scope"))
        yield from immutable("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind"))
    yield from immutable("spec.group", spec.get("group"), before.get("group"))
    yield from immutable("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural"))


def _stored_versions(stored: Sequence[str], versions: Sequence[Tree]) -> Iterator[Cause]:
    path = "status.storedVersions"
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    listed = {version.get("name") for version in versions}
    for version in versions:
        if version.get("storage") and version.get("name") not in stored:
            yield invalid(path, list(stored), f"must have the storage version {version.get('name', '')}")
    for index, name in enumerate(stored):
        if name not in listed:
            rule = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"{path}[{index}]", name, rule)


def _approval(tree: Tree, old: Tree | None) -> Iterator[Cause]:
    """Groups of Kubernetes require a link to the approval of the API."""
    group = tree["spec"].get("group", "")
    if old is not None or not any(group == root or group.endswith(f".{root}") for root in _PROTECTED):
        return
    path = f"metadata.annotations[{_APPROVED}]"
    given = (tree["metadata"].get("annotations") or {}).get(_APPROVED)
    if given is None:
        rule = "protected groups must have approval annotation"
        link = "see https://github.com/kubernetes/enhancements/pull/1111"
        yield required(path, f'{rule} "{_APPROVED}", {link}')
    elif not given.startswith(("https://", "http://", "unapproved")):
        rule = (
            f'protected groups must have approval annotation "{_APPROVED}" with either a URL or a reason starting with'
        )
        yield invalid(path, given, f'{rule} "unapproved", see https://github.com/kubernetes/enhancements/pull/1111')
