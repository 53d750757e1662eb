"""Validation of pods and pod templates. Updates are in `pod_updates`."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.api import selectors
from trimtab_lab.apiserver.kinds.validation import (
    addresses,
    containers,
    metadata,
    names,
    placement,
    resources,
    security,
    volumes,
)
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    duplicate,
    each,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from trimtab_lab.apiserver.kinds.validation.container_context import ContainerContext
from trimtab_lab.apiserver.storage.store import Tree

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"
_INT32 = range(-(2**31), 2**31)
MOST_SECONDS = 2**31 - 1
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def validate_create(pod: Tree, causes: Causes) -> None:
    whole_pod(pod, causes)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        fault = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden("spec.nodeName", fault))


def whole_pod(pod: Tree, causes: Causes) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    metadata.validate_create(meta, causes, namespaced=True, name=names.subdomain)
    if meta.get("annotations"):
        pod_annotations(meta["annotations"], spec, causes, "metadata.annotations")
    pod_spec(spec, causes, "spec", of_pod=True)
    if not spec.get("serviceAccountName"):
        _no_tokens(spec, causes)
    for group in ("containers", "initContainers"):
        trimmed_images(spec.get(group) or (), causes, f"spec.{group}")


def _no_tokens(spec: Tree, causes: Causes) -> None:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for place, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                path = f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"
                causes.append(forbidden(path, "must not be specified when serviceAccountName is not set"))


def trimmed_images(given: Sequence[Tree], causes: Causes, path: str) -> None:
    for index, container in enumerate(given):
        image = container.get("image", "")
        if image != image.strip():
            causes.append(invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace"))


def pod_annotations(annotations: Tree, spec: Tree, causes: Causes, path: str) -> None:
    if MIRROR in annotations and not spec.get("nodeName"):
        fault = "must set spec.nodeName if mirror pod annotation is set"
        causes.append(invalid(f"{path}[{MIRROR}]", annotations[MIRROR], fault))
    cost = annotations.get(DELETION_COST)
    if cost is not None and not _is_cost(cost):
        causes.append(invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer"))


def _is_cost(text: str) -> bool:
    """A signed integer of 32 bits, without a plus sign and leading zeros; after a minus sign, zeros may lead."""
    number = selectors.int64(text)
    if number is None or number not in _INT32:
        return False
    return text == "0" or text[0] in "-123456789"


def pod_spec(spec: Tree, causes: Causes, path: str, *, of_pod: bool) -> None:
    if "terminationGracePeriodSeconds" not in spec:
        causes.append(required(f"{path}.terminationGracePeriodSeconds"))
    good_volumes = volumes.volumes(spec["volumes"], causes, f"{path}.volumes") if "volumes" in spec else {}
    _containers(spec, good_volumes, causes, path)
    if "resources" in spec:
        resources.pod(spec["resources"], causes, f"{path}.resources")
    if spec.get("hostNetwork"):
        _host_network(spec, causes, path, of_pod=of_pod)
    _policies(spec, causes, path)
    if "nodeSelector" in spec:
        metadata.labels(spec["nodeSelector"], causes, f"{path}.nodeSelector")
    if spec.get("securityContext"):
        security.pod(spec["securityContext"], spec, causes, f"{path}.securityContext")
    if "affinity" in spec:
        placement.affinity(spec["affinity"], causes, f"{path}.affinity")
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        _dns(spec, causes, f"{path}.dnsConfig")
    _gates(spec, causes, path)
    if "topologySpreadConstraints" in spec:
        placement.spread(spec["topologySpreadConstraints"], causes, f"{path}.topologySpreadConstraints")
    _rest(spec, causes, path)


def _containers(spec: Tree, good_volumes: dict[str, Tree], causes: Causes, path: str) -> None:
    claims = spec.get("resourceClaims")
    context = ContainerContext(
        volumes=good_volumes,
        claims=frozenset(claim.get("name", "") for claim in claims) if claims else frozenset(),
        grace=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy", ""),
        host_users=spec.get("hostUsers", True),
        os=(spec.get("os") or {}).get("name", ""),
    )
    ordinary = spec.get("containers") or []
    containers.containers(ordinary, context, causes, f"{path}.containers")
    if "initContainers" in spec:
        containers.init_containers(spec["initContainers"], ordinary, context, causes, f"{path}.initContainers")
    if "ephemeralContainers" in spec:
        others = [*ordinary, *(spec.get("initContainers") or ())]
        containers.ephemeral_containers(
            spec["ephemeralContainers"], others, context, causes, f"{path}.ephemeralContainers"
        )


def _host_network(spec: Tree, causes: Causes, path: str, *, of_pod: bool) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for place, port in enumerate(container.get("ports") or ()):
            host, inside = port.get("hostPort", 0), port.get("containerPort", 0)
            if (of_pod or host) and host != inside:
                at = f"{path}.containers[{index}].ports[{place}].hostPort"
                causes.append(invalid(at, host, "must match `containerPort` when `hostNetwork` is true"))


def _policies(spec: Tree, causes: Causes, path: str) -> None:
    for field, supported in (("restartPolicy", _RESTART_POLICIES), ("dnsPolicy", _DNS_POLICIES)):
        value = spec.get(field, "")
        if value not in supported:
            at = f"{path}.{field}"
            causes.append(unsupported(at, value, supported) if value else required(at))


def _gates(spec: Tree, causes: Causes, path: str) -> None:
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        name = gate.get("conditionType", "")
        causes += each(f"{path}.readinessGates[{index}].conditionType", name, names.qualified(name))
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        causes += each(f"{path}.schedulingGates[{index}]", name, names.qualified(name))
        if name in seen:
            causes.append(duplicate(f"{path}.schedulingGates[{index}]", name))
        seen.add(name)


_NAMES = (
    ("serviceAccountName", names.subdomain),
    ("nodeName", names.subdomain),
    ("hostname", names.label),
    ("subdomain", names.label),
    ("priorityClassName", names.subdomain),
    ("runtimeClassName", names.subdomain),
)


def _rest(spec: Tree, causes: Causes, path: str) -> None:
    for field, form in _NAMES:
        if field in spec:
            faults = form(spec[field])
            if faults:
                causes += each(f"{path}.{field}", spec[field], faults)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= MOST_SECONDS:
        causes += each(f"{path}.activeDeadlineSeconds", seconds, [names.between(1, MOST_SECONDS)])
    if "tolerations" in spec:
        placement.tolerations(spec["tolerations"], causes, f"{path}.tolerations")
    if "hostAliases" in spec:
        _host_aliases(spec["hostAliases"], causes, f"{path}.hostAliases")
    if "preemptionPolicy" in spec:
        preemption_policy(spec["preemptionPolicy"], causes, f"{path}.preemptionPolicy")
    if "overhead" in spec:
        resources.container({"limits": spec["overhead"]}, frozenset(), causes, f"{path}.overhead")
    if "os" in spec:
        _os(spec["os"], causes, f"{path}.os")
    if "hostnameOverride" in spec:
        _hostname_override(spec, causes, path)


def preemption_policy(policy: str, causes: Causes, path: str) -> None:
    supported = ("PreemptLowerPriority", "Never")
    if policy not in supported:
        causes.append(unsupported(path, policy, supported) if policy else required(path))


def _host_aliases(aliases: Sequence[Tree], causes: Causes, path: str) -> None:
    for index, alias in enumerate(aliases):
        addresses.address(alias.get("ip", ""), causes, f"{path}[{index}].ip")
        for place, name in enumerate(alias.get("hostnames") or ()):
            causes += each(f"{path}[{index}].hostnames[{place}]", name, names.subdomain(name))


def _os(system: Tree, causes: Causes, path: str) -> None:
    name = system.get("name", "")
    if not name:
        causes.append(required(f"{path}.name"))
    elif name not in ("linux", "windows"):
        causes.append(unsupported(path, name, ("linux", "windows")))


def _hostname_override(spec: Tree, causes: Causes, path: str) -> None:
    at, name = f"{path}.hostnameOverride", spec["hostnameOverride"]
    if spec.get("setHostnameAsFQDN"):
        causes.append(forbidden(at, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        causes.append(forbidden(at, "may not be specified when hostNetwork is true"))
    if len(name) > 64:
        causes.append(too_long(at, 64))
    causes += each(at, name, names.subdomain(name))


def _dns(spec: Tree, causes: Causes, path: str) -> None:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            causes.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            fault = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            causes.append(required(f"{path}.nameservers", fault))
            return
    config = config or {}
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if len(servers) > 3:
        causes.append(invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers"))
    for index, server in enumerate(servers):
        addresses.address(server, causes, f"{path}.nameservers[{index}]")
    if len(searches) > 32:
        causes.append(invalid(f"{path}.searches", searches, "must not have more than 32 search paths"))
    for index, search in enumerate(searches):
        name = search.removesuffix(".")
        if search != ".":
            causes += each(f"{path}.searches[{index}]", name, names.subdomain_with_underscore(name))
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            causes.append(required(f"{path}.options[{index}]", "must not be empty"))


def template(given: Tree, causes: Causes, path: str) -> None:
    """A pod template. Kubernetes leaves `metadata` out of the paths of its labels and annotations."""
    meta, spec = given.get("metadata") or {}, given["spec"]
    if "labels" in meta:
        metadata.labels(meta["labels"], causes, f"{path}.labels")
    if "annotations" in meta:
        metadata.annotation_texts(meta["annotations"], causes, f"{path}.annotations")
        pod_annotations(meta["annotations"], spec, causes, f"{path}.annotations")
    pod_spec(spec, causes, f"{path}.spec", of_pod=False)
    if spec.get("ephemeralContainers"):
        fault = "ephemeral containers not allowed in pod template"
        causes.append(forbidden(f"{path}.spec.ephemeralContainers", fault))


def binding(given: Tree, causes: Causes) -> None:
    target = given.get("target") or {}
    if target.get("kind", "Node") not in ("", "Node"):
        causes.append(unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(required("target.name"))
