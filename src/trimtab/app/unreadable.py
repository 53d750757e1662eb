"""Reports of objects that cannot be read, or whose rules do not count: metrics, events on the objects, and lines for
the health page.
"""

from __future__ import annotations

import logging

from trimtab.api.annotations import Reason
from trimtab.api.pods import Pod
from trimtab.app.metrics import Metrics
from trimtab.kube.client import Client
from trimtab.kube.events import WARNING, Recorder
from trimtab.kube.unreadable import UnreadableObject

log = logging.getLogger(__name__)


class UnreadableReports:
    """Counts the objects that a client cannot read, and writes an event on each while `run` runs."""

    def __init__(self, client: Client, metrics: Metrics) -> None:
        self._found = client.unreadable
        self._metrics = metrics
        self._recorder = Recorder(client, component="trimtab")
        self._found.on_report = self._report

    @property
    def lines(self) -> list[str]:
        """A line for each object that could not be read when it was last seen."""
        return [str(each) for each in self._found.current]

    async def run(self) -> None:
        """Write the events until cancelled."""
        await self._recorder.run()

    def report_ignored(self, pod: Pod, reason: str) -> None:
        """Report a pod of which some rules do not count for others: they are invalid, or too many."""
        log.warning("some rules of pod %s do not count for other pods: %s", pod.key, reason)
        self._metrics.count_ignored_rules()
        message = f"Trimtab treats other pods as if this one did not have these rules: {reason}"
        self._recorder.record(pod, WARNING, Reason.IGNORED_RULES, message)

    def _report(self, found: UnreadableObject) -> None:
        self._metrics.count_unreadable(found.about.kind)
        if found.about.name:
            message = f"Trimtab cannot read this object and skips it: {found.reason}"
            self._recorder.record(found.about, WARNING, Reason.UNREADABLE, message)
