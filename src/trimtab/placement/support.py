"""What Trimtab does not judge, so that a pod which needs it is left to kube-scheduler and never placed wrongly.

Storage decides where a pod may go by what classes, claims, volumes and drivers say, and dynamic resources by what
devices there are: Trimtab reads none of these. Pods of a scheduling group are placed together or not at all, and
Trimtab places one at a time.
"""

from __future__ import annotations

from trimtab.api.pods import Pod, Volume

STORAGE = {
    "persistent_volume_claim": "persistentVolumeClaim",
    "ephemeral": "ephemeral",
    "gce_persistent_disk": "gcePersistentDisk",
    "aws_elastic_block_store": "awsElasticBlockStore",
    "azure_disk": "azureDisk",
    "azure_file": "azureFile",
    "vsphere_volume": "vsphereVolume",
    "portworx_volume": "portworxVolume",
    "cinder": "cinder",
    "iscsi": "iscsi",
    "rbd": "rbd",
}
"""The sources of volumes that not every node can mount: the field here, and as it is written."""


def unsupported(pod: Pod) -> str | None:
    """The first thing about a pod that Trimtab does not judge, as a sentence with the field; None if it judges all."""
    for index, volume in enumerate(pod.spec.volumes):
        source = _storage(volume)
        if source is not None:
            return f"spec.volumes[{index}].{source} takes knowledge of storage to place"
    if pod.spec.resource_claims:
        return "spec.resourceClaims[0] takes knowledge of devices to place"
    if pod.spec.scheduling_group is not None:
        return "spec.schedulingGroup asks to be placed together with others"
    return None


def _storage(volume: Volume) -> str | None:
    return next((written for name, written in STORAGE.items() if getattr(volume, name) is not None), None)
