"""Labels of namespaces that mean nothing, and their reports: an event on the namespace, and a line in the log."""

from __future__ import annotations

import logging

from trimtab.api.annotations import Reason
from trimtab.api.meta import ObjectReference
from trimtab.kube.events import WARNING
from trimtab.kube.resources import Key
from trimtab.scaledown.policy.effective import unknown_mode, unknown_mode_message
from trimtab.scaledown.results.reporter import EventRecorder
from trimtab.scaledown.view import View

log = logging.getLogger(__name__)


class NamespaceLabelReports:
    """Reports each namespace whose label `trimtab.dev/scale-down` has an unknown value, once for each value."""

    def __init__(self, view: View, recorder: EventRecorder | None = None) -> None:
        self._view = view
        self._recorder = recorder
        self._known: dict[str, str] = {}

    def report(self, name: str) -> None:
        """Report a namespace, unless its label is as it was reported already."""
        namespace = self._view.namespaces.get(Key(name))
        value = None if namespace is None else unknown_mode(namespace.metadata.labels)
        before = self._known.pop(name, None)
        if namespace is None or value is None:
            return
        self._known[name] = value
        if value != before:
            message = unknown_mode_message(value)
            log.warning("namespace %s: %s", name, message)
            if self._recorder is not None:
                about = ObjectReference(api_version="v1", kind="Namespace", name=name, uid=namespace.metadata.uid)
                self._recorder.record(about, WARNING, Reason.UNKNOWN_LABEL_VALUE.value, message)

    def forget(self) -> None:
        """Forget all reports: another process makes them."""
        self._known.clear()
