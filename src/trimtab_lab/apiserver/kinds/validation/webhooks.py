"""Validation of webhook configurations.

The lab evaluates no CEL. Match conditions, which need it, are therefore rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from trimtab_lab.apiserver.kinds.validation import metadata, names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    duplicate,
    each,
    forbidden,
    invalid,
    required,
    unsupported,
)
from trimtab_lab.apiserver.storage.store import Tree

_REVIEW_VERSIONS = ("v1", "v1beta1")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_FORMAT = "; desired format: https://host[/path]"


def validating(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    _configuration(tree, causes, old, mutating=False)


def mutating(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    _configuration(tree, causes, old, mutating=True)


def _configuration(tree: Tree, causes: Causes, old: Tree | None, *, mutating: bool) -> None:
    del old  # an update is checked like a creation
    metadata.validate_create(tree["metadata"], causes, namespaced=False, name=names.subdomain, finalizers=False)
    seen: set[str] = set()
    for index, webhook in enumerate(tree.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        _webhook(webhook, causes, path, mutating=mutating)
        _review_versions(webhook.get("admissionReviewVersions") or (), causes, f"{path}.admissionReviewVersions")
        name = webhook.get("name", "")
        if name and name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)


def _webhook(webhook: Tree, causes: Causes, path: str, *, mutating: bool) -> None:
    _qualified_name(webhook.get("name", ""), causes, f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        _rule(rule, causes, f"{path}.rules[{index}]")
    for field, supported in (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))):
        if webhook.get(field, supported[0]) not in supported:
            causes.append(unsupported(f"{path}.{field}", webhook[field], supported))
    effects = webhook.get("sideEffects")
    if effects is None:
        causes.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    elif effects not in ("None", "NoneOnDryRun"):
        causes.append(unsupported(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun")))
    seconds = webhook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        fault = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid(f"{path}.timeoutSeconds", seconds, fault))
    for field in ("namespaceSelector", "objectSelector"):
        metadata.selector(webhook.get(field), causes, f"{path}.{field}")
    if mutating and webhook.get("reinvocationPolicy", "Never") not in ("IfNeeded", "Never"):
        policy = webhook["reinvocationPolicy"]
        causes.append(unsupported(f"{path}.reinvocationPolicy", policy, ("IfNeeded", "Never")))
    client(webhook.get("clientConfig") or {}, causes, f"{path}.clientConfig")
    if webhook.get("matchConditions"):
        fault = "this API server evaluates no CEL: choose requests by rules, namespaceSelector and objectSelector"
        causes.append(forbidden(f"{path}.matchConditions", fault))


def _qualified_name(name: str, causes: Causes, path: str) -> None:
    if not name:
        causes.append(required(path))
        return
    faults = names.subdomain(name)
    if faults:
        causes.append(invalid(path, name, ",".join(faults)))
    elif name.count(".") < 2:
        causes.append(invalid(path, name, "should be a domain with at least three segments separated by dots"))


def client(config: Tree, causes: Causes, path: str) -> None:
    """A client configuration: a URL or a Service, never both."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        causes.append(required(path, "exactly one of url or service is required"))
    elif url is not None:
        _url(url, causes, f"{path}.url")
    elif service is not None:
        _service(service, causes, f"{path}.service")


def _url(url: str, causes: Causes, path: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        causes.append(required(path, f"url must be a valid URL: {error}{_FORMAT}"))
        return
    if parts.scheme != "https":
        causes.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORMAT}"))
    if not parts.netloc:
        causes.append(invalid(path, parts.netloc, f"host must be specified{_FORMAT}"))
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        causes.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        causes.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        causes.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))


def _service(service: Tree, causes: Causes, path: str) -> None:
    # Kubernetes confuses the two: an empty name is reported as an empty namespace, and vice versa.
    if not service.get("namespace"):
        causes.append(required(f"{path}.name"))
    if not service.get("name"):
        causes.append(required(f"{path}.namespace"))
    port = service.get("port", 443)
    if names.port_number(port):
        causes.append(invalid(f"{path}.port", port, f"port is not valid: {', '.join(names.port_number(port))}"))
    given = service.get("path")
    if given not in (None, "", "/"):
        _service_path(given, causes, f"{path}.path")


def _service_path(given: str, causes: Causes, path: str) -> None:
    if given == "//":
        causes.append(invalid(path, given, "segment[0] may not be empty"))
        return
    if not given.startswith("/"):
        causes.append(invalid(path, given, "must start with a '/'"))
    for index, step in enumerate(given[1:].removesuffix("/").split("/")):
        faults = [f"segment[{index}]: {fault}" for fault in names.subdomain(step)]
        causes += each(path, given, faults if step else [f"segment[{index}] may not be empty"])


def _review_versions(versions: Sequence[str], causes: Causes, path: str) -> None:
    shown = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        causes.append(required(path, f"must specify one of {shown}"))
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            causes.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            causes += each(f"{path}[{index}]", version, names.label_1035(version))
    if not set(versions) & set(_REVIEW_VERSIONS):
        causes.append(invalid(path, versions, f"must include at least one of {shown}"))


# --- rules -----------------------------------------------------------------------------------------------------------


def _rule(rule: Tree, causes: Causes, path: str) -> None:
    operations = rule.get("operations") or ()
    if not operations:
        causes.append(required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        fault = "if '*' is present, must not specify other operations"
        causes.append(invalid(f"{path}.operations", operations, fault))
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            causes.append(unsupported(f"{path}.operations[{index}]", operation, _OPERATIONS))
    for field, noun in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        _wildcards(rule.get(field) or (), noun, causes, f"{path}.{field}")
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            causes.append(required(f"{path}.apiVersions[{index}]"))
    _resources(rule.get("resources") or (), causes, f"{path}.resources")
    scope = rule.get("scope", "*")
    if scope not in ("*", "Cluster", "Namespaced"):
        causes.append(unsupported(f"{path}.scope", scope, ("*", "Cluster", "Namespaced")))


def _wildcards(values: Sequence[str], noun: str, causes: Causes, path: str) -> None:
    if not values:
        causes.append(required(path))
    if len(values) > 1 and "*" in values:
        causes.append(invalid(path, values, f"if '*' is present, must not specify other {noun}"))


def _resources(resources: Sequence[str], causes: Causes, path: str) -> None:
    if not resources:
        causes.append(required(path))
    every_part_of: set[str] = set()
    every_with: set[str] = set()
    bare = False
    for index, given in enumerate(resources):
        resource, slash, part = given.partition("/")
        if not given:
            causes.append(required(f"{path}[{index}]"))
        elif not slash:
            bare = given != "*"
        else:
            if resource in every_part_of:
                fault = f"if '{resource}/*' is present, must not specify {given}"
                causes.append(invalid(f"{path}[{index}]", given, fault))
            if part in every_with:
                fault = f"if '*/{part}' is present, must not specify {given}"
                causes.append(invalid(f"{path}[{index}]", given, fault))
            if part == "*":
                every_part_of.add(resource)
            if resource == "*":
                every_with.add(part)
    if len(resources) > 1 and "*/*" in resources:
        causes.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and bare:
        fault = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid(path, resources, fault))
