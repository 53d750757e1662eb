"""What a control plane is known not to have.

A controller that does not answer in time is a failure, not an absence. The labs have all controllers; for a cluster of
one's own WITHOUT lists what it lacks: `WITHOUT="kube-scheduler disruption-controller" make e2e`.
"""

from __future__ import annotations

import os

import pytest

DEPLOYMENT_CONTROLLER = "deployment-controller"
DISRUPTION_CONTROLLER = "disruption-controller"
KUBE_SCHEDULER = "kube-scheduler"
STREAMING_LISTS = "streaming-lists"
"""WatchList: off in older versions, and where etcd cannot report the progress of a watch."""


def is_absent(controller: str) -> bool:
    """Whether the control plane under test is known not to have a controller."""
    return controller in os.environ.get("WITHOUT", "").split()


def skip_without(controller: str) -> None:
    """Skip the test where the controller is known to be absent."""
    if is_absent(controller):
        pytest.skip(f"this control plane has no {controller}")
