"""What Trimtab does not judge, so that a pod which needs it is left to kube-scheduler and never placed wrongly.

Storage decides where a pod may go by what classes, claims, volumes and drivers say; dynamic resources by what devices
there are; some features by which nodes declare to have them. Trimtab reads none of that. And pods of a scheduling group
are placed together or not at all, where Trimtab places one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trimtab.api.pods import Pod, PodSpec, Volume

_MOUNTED_ANYWHERE = ("image",)
STORAGE = {f.name: f.encode_name for f in msgspec.structs.fields(Volume) if f.name not in _MOUNTED_ANYWHERE}
"""The sources of volumes that not every node can mount: by attribute, as they are written."""


def unsupported(pod: Pod) -> str | None:
    """The first thing about a pod that Trimtab does not judge, as a sentence with the field; None if it judges all."""
    return next(_needs(pod.spec), None)


def _needs(spec: PodSpec) -> Iterator[str]:
    for index, volume in enumerate(spec.volumes):
        for attribute, written in STORAGE.items():
            if getattr(volume, attribute) is not None:
                yield f"spec.volumes[{index}].{written} takes knowledge of storage"
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
