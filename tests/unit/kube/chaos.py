"""Trouble for tests: objects that come and go, on a server that misbehaves."""

from __future__ import annotations

import random

from tests.unit.kube.fakes import FakeServer, Misbehaviour, pod_tree

PODS = ("/api/v1", "pods")

TROUBLE = Misbehaviour(
    latency=0.3,
    refuse=0.05,
    fail=0.1,
    lose_answer=0.05,
    gone=0.1,
    cut=0.1,
    repeat=0.2,
    bookmark=0.2,
    split=0.3,
)


def churn(server: FakeServer, rng: random.Random, step: int) -> None:
    """Something happens: pods appear, change, go, come back under the same name; or the server forgets or cuts."""
    labels = {f"default/{tree['metadata']['name']}": tree["metadata"].get("labels") for tree in server.objects("pods")}
    for name in rng.sample([f"default/pod-{n}" for n in range(15)], rng.randrange(3)):
        if name in labels and rng.random() < 0.3:
            server.drop(*PODS, name)
            if rng.random() < 0.3:
                server.put(*PODS, pod_tree(name.split("/")[1], node=f"again-{step}"))
        else:
            server.put(*PODS, pod_tree(name.split("/")[1], node=f"node-{step}", labels=labels.get(name)))
    trouble = rng.random()
    if trouble < 0.03:
        server.forget()
    elif trouble < 0.06:
        server.cut_watches(cleanly=rng.random() < 0.5)
    elif trouble < 0.08:
        server.expire_watches()
    elif trouble < 0.15:
        server.bookmark()
