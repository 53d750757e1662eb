"""Registry strategies: what happens to an object besides defaults."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab_lab.apiserver.kinds.pod_strategy import qos_class

Tree = dict[str, Any]


def spec(*containers: Tree, **more: Any) -> Tree:
    """A pod with containers that have these resources."""
    return {"containers": [{"resources": resources} for resources in containers], **more}


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        pytest.param(spec({}), "BestEffort", id="no requests"),
        pytest.param(spec({"requests": {"cpu": "0"}}), "BestEffort", id="zero is nothing"),
        pytest.param(spec({"requests": {"example.com/gpu": "1"}}), "BestEffort", id="other resources do not count"),
        pytest.param(spec({"requests": BOTH, "limits": BOTH}), "Guaranteed", id="requests equal limits"),
        pytest.param(
            spec({"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": BOTH}),
            "Guaranteed",
            id="the same, in other words",
        ),
        pytest.param(spec({"requests": BOTH}), "Burstable", id="no limits"),
        pytest.param(spec({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), "Burstable", id="one of two"),
        pytest.param(spec({"requests": BOTH, "limits": BOTH}, {}), "Burstable", id="one container of two"),
        pytest.param(
            spec({"requests": BOTH, "limits": BOTH}, initContainers=[{"resources": {}}]),
            "Burstable",
            id="not the first one",
        ),
        pytest.param(spec({}, resources={"requests": BOTH, "limits": BOTH}), "Guaranteed", id="for the pod as a whole"),
    ],
)
def test_a_pod_has_a_qos_class(pod: Tree, wanted: str) -> None:
    """By the requests and limits of its containers."""
    assert qos_class(pod) == wanted
