"""Features of pods that Trimtab does not support: such a pod is left to kube-scheduler and never placed wrongly.

Storage restricts nodes by classes, claims, volumes and drivers; dynamic resources by devices; some features by what
nodes declare. Trimtab reads none of these. And pods of a scheduling group are placed together or not at all, while
Trimtab places one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trimtab.api.pods import Pod, PodSpec, Volume
from trimtab.placement.changes import Subject
from trimtab.placement.hints import Hints, hint

_MOUNTED_ANYWHERE = ("image",)
STORAGE = {f.name: f.encode_name for f in msgspec.structs.fields(Volume) if f.name not in _MOUNTED_ANYWHERE}
"""The sources of volumes that not every node can mount: field names in JSON, by attribute."""


HINTS: Hints = (hint(Subject.WAITING_POD),)
"""Only a change of the pod itself can make it supported."""


def unsupported(pod: Pod) -> str | None:
    """The first field of a pod that Trimtab does not support, with the reason; None if it supports all."""
    return next(_needs(pod.spec), None)


def _needs(spec: PodSpec) -> Iterator[str]:
    for index, volume in enumerate(spec.volumes):
        for attribute, field_name in STORAGE.items():
            if getattr(volume, attribute) is not None:
                yield f"spec.volumes[{index}].{field_name} takes knowledge of storage"
    if spec.resource_claims:
        yield "spec.resourceClaims takes knowledge of devices"
    if spec.scheduling_group is not None:
        yield "spec.schedulingGroup takes placing several pods at once"
    if spec.host_network and spec.host_users is False:
        yield "spec.hostUsers, with spec.hostNetwork, takes knowledge of which nodes support it"
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
                yield f"spec.{field}[{index}].restartPolicyRules takes knowledge of which nodes support it"
