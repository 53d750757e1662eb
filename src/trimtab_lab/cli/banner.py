"""What `trimtab lab up` prints once the lab is up: what runs in it, and what to try."""

from __future__ import annotations

from trimtab_lab.controlplane.versions import SCHEDULER
from trimtab_lab.definition import LabOptions
from trimtab_lab.supervisor import Supervisor

_EMBEDDED_NOTE = "All objects are kept in memory; Ctrl-C stops the lab."


def banner(supervisor: Supervisor, options: LabOptions) -> str:
    """The banner of a lab."""
    control_plane = options.control_plane
    notes = [_EMBEDDED_NOTE]
    if control_plane is not None:
        notes = [f"Requests are audited in {supervisor.folder}/logs/audit.log. Ctrl-C stops the lab."]
        notes += [f"Note: {note}." for note in control_plane.binaries.notes()]
    if supervisor.metrics_url:
        notes.append(f"The workload controllers serve {supervisor.metrics_url}.")
    dashboard = f"\nThe dashboard is at {supervisor.dashboard_url}\n" if supervisor.dashboard_url else ""
    title = "Trimtab's lab is up" + ("" if control_plane is None else f" on {supervisor.control_plane}")
    return f"""
{title}. In another terminal:

  export KUBECONFIG={supervisor.kubeconfig.absolute()}
  kubectl get nodes -L topology.kubernetes.io/zone
  kubectl create deployment web --image=example.com/web:1 --replicas=9
  kubectl get pods -o wide{_placed(options)}
  kubectl scale deployment web --replicas=4{_scaled(options)}
{dashboard}
Logs are in {supervisor.folder}/logs. {chr(10).join(notes)}
"""


def _placed(options: LabOptions) -> str:
    """What happens to new pods, if it is not what everyone expects."""
    return "" if _has_scheduler(options) else "                         # Pending: no scheduler runs in this lab"


def _scaled(options: LabOptions) -> str:
    """What happens to pods in a scale-down; nothing to see where none has a node."""
    if not _has_scheduler(options):
        return ""
    if "webhooks" not in options.components:
        text = "Kubernetes alone chooses which pods go: Trimtab's webhooks do not run in this lab"
    elif not options.feature_gates.get("PodDeletionCost", True):
        text = "Kubernetes alone chooses which pods go: its controllers ignore deletion costs (PodDeletionCost=false)"
    else:
        text = "zones stay level; a warning says what Kubernetes alone would leave"
    return f"        # {text}"


def _has_scheduler(options: LabOptions) -> bool:
    return "scheduler" in options.components or options.has(SCHEDULER)
