"""Reviews of pods that are about to be created: default constraints are added to those that state none.

Only the pods of namespaces with the label `trimtab.dev/default-constraints: enabled` are changed; API servers send no
others, except for subsets, whose reviews come through the same webhook.

A failure of ours is logged and counted, and the pod is admitted as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from trimtab.admission.server import Hook, admitted
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.api.annotations import DEFAULT_CONSTRAINTS, DEFAULTED
from trimtab.api.documents import JSON
from trimtab.api.meta import LabelSelector
from trimtab.defaulting import deduction
from trimtab.defaulting.deduction import NewPod, Result
from trimtab.defaulting.metrics import Metrics
from trimtab.defaulting.owners import Owners
from trimtab.defaulting.rules import Rule, rule_for
from trimtab.kube.threads import read_beside

NAME = "default-constraints"
PATH = "/pods"
BUDGET = 1.0
"""Seconds after which a pod is admitted as it is: that of the pod webhook."""

log = logging.getLogger(__name__)


class DefaultingReviews:
    """The hook for creations of pods."""

    def __init__(self, owners: Owners, rules: Sequence[Rule], *, metrics: Metrics | None = None) -> None:
        self._owners = owners
        self._rules = rules
        self.metrics = metrics or Metrics()
        self.hook = Hook(NAME, PATH, self.decide, BUDGET, is_ready=lambda: owners.synced)

    async def decide(self, request: AdmissionRequest) -> AdmissionResponse:
        """Admit, with default constraints where the pod states none."""
        if request.operation != "CREATE" or request.sub_resource or request.object is None:
            return admitted(request)
        try:
            patch = await self._patch(request.object.text, request.namespace)
        except Exception:
            log.exception("no default constraints are added to pod %s in %s", request.name, request.namespace)
            self.metrics.record(Result.FAILED)
            return admitted(request)
        if patch is None:
            return admitted(request)
        return AdmissionResponse(uid=request.uid, allowed=True, patch=codec.encode(patch), patch_type="JSONPatch")

    async def _patch(self, text: bytes, namespace: str) -> list[JSON] | None:
        labels = await self._owners.namespace_labels(namespace)
        if labels.get(DEFAULT_CONSTRAINTS) != DEFAULTED:
            return None
        pod = await read_beside(len(text), codec.decode, text, NewPod)
        result = deduction.is_left_alone(pod)
        rule = rule_for(self._rules, labels)
        if result is None and (rule is None or not rule.constraints):
            result = Result.EXEMPT
        if result is None and rule is not None:
            selector = await self._selector(pod, namespace)
            if selector is not None:
                self.metrics.record(Result.ADDED)
                return deduction.patch(pod, rule, selector)
        self.metrics.record(result or Result.UNGROUPED)
        return None

    async def _selector(self, pod: NewPod, namespace: str) -> LabelSelector | None:
        controller = await self._owners.selector(pod.metadata.controller, namespace)
        return deduction.deduced_selector(pod.metadata.labels, controller, self._owners.services(namespace))
