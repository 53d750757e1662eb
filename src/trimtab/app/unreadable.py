"""Reports of objects that cannot be read: a metric, an event on the object, and lines for the health page."""

from __future__ import annotations

from trimtab.api.annotations import Reason
from trimtab.app.metrics import Metrics
from trimtab.kube.client import Client
from trimtab.kube.events import WARNING, Recorder
from trimtab.kube.unreadable import UnreadableObject


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

    def _report(self, found: UnreadableObject) -> None:
        self._metrics.count_unreadable(found.about.kind)
        if found.about.name:
            message = f"Trimtab cannot read this object and skips it: {found.reason}"
            self._recorder.record(found.about, WARNING, Reason.UNREADABLE, message)
