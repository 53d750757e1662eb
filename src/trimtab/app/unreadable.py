"""Reports of objects that cannot be read, or whose rules do not count: metrics, events on the objects, and lines for
the health page.
"""

from __future__ import annotations

import logging

from trimtab.api.annotations import Reason
from trimtab.app.metrics import Metrics
from trimtab.kube.client import Client
from trimtab.kube.events import WARNING, Recorder
from trimtab.kube.resources import Resource
from trimtab.kube.stores import Object, key_of
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

    def report_ignored(self, found: Object, reason: str) -> None:
        """Report an object of which some rules are ignored: they are invalid, or too many."""
        kind = Resource.of(type(found)).kind
        log.warning("some rules of %s %s are ignored: %s", kind, key_of(found), reason)
        self._metrics.count_ignored_rules(kind)
        self._recorder.record(found, WARNING, Reason.IGNORED_RULES, f"Trimtab ignores these rules: {reason}")

    def _report(self, found: UnreadableObject) -> None:
        self._metrics.count_unreadable(found.about.kind)
        if found.about.name:
            message = f"Trimtab cannot read this object and skips it: {found.reason}"
            self._recorder.record(found.about, WARNING, Reason.UNREADABLE, message)
