"""Metrics of the dashboard: pages that were refused or cut off."""

from __future__ import annotations

import logging
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter

log = logging.getLogger(__name__)


class Refusal(StrEnum):
    """Why a page was refused or cut off."""

    SERVER_LIMIT = "server-limit"
    """Refused: as many pages are open as the server serves."""
    CALLER_LIMIT = "caller-limit"
    """Refused: as many pages are open with the same token as one token may have."""
    NOT_READ = "not-read"
    """Cut off: it did not read what was sent."""


_SENTENCES = {
    Refusal.SERVER_LIMIT: "a page was refused: this server has as many open pages as it serves at once",
    Refusal.CALLER_LIMIT: "a page was refused: as many pages are open with its token as one token may have",
    Refusal.NOT_READ: "a page was cut off: its browser, or something before it, did not read what was sent",
}


class Metrics:
    """The metrics of one server."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._refused = Counter(
            "trimtab_dashboard_pages_refused",
            "Pages of the dashboard that were refused (server-limit, caller-limit) or cut off (not-read), by reason.",
            ("reason",),
            registry=self.registry,
        )
        self._logged: set[Refusal] = set()

    def refuse(self, reason: Refusal) -> None:
        """Count a page; the first one of each reason is logged."""
        self._refused.labels(reason.value).inc()
        if reason not in self._logged:
            self._logged.add(reason)
            log.warning("%s; logged once, trimtab_dashboard_pages_refused_total counts them", _SENTENCES[reason])
