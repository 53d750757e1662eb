"""Lists that were read in pages, because the API server did not stream them.

A list in pages takes more memory, here and in the API server. So that this does not go unnoticed, every client has one
`ListFallbacks`, to which its informers report (`lists`). It logs the first list of each kind and reason, and calls a
function that counts each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum

from trimtab.kube.resources import Resource

log = logging.getLogger(__name__)


class FallbackReason(StrEnum):
    """Why a list was read in pages."""

    REFUSED = "refused"
    """The API server does not serve initial events: its version is older, or the feature is off."""
    FAILED = "failed"
    """The stream failed, ended or fell silent before the list was complete."""


class ListFallbacks:
    """Reports lists that were read in pages."""

    def __init__(self) -> None:
        self.on_report: Callable[[str, FallbackReason], None] | None = None
        """Called with the kind and the reason for each list that was read in pages."""
        self._logged: set[tuple[str, FallbackReason]] = set()

    def report(self, resource: Resource[object], reason: FallbackReason, detail: str) -> None:
        """Note that a list was read in pages; `detail` is what the API server answered."""
        place = (resource.kind, reason)
        log.log(
            logging.DEBUG if place in self._logged else logging.INFO,
            "listed %s in pages, because the streamed list %s: %s",
            *(resource.plural, "was refused" if reason is FallbackReason.REFUSED else "failed", detail),
        )
        self._logged.add(place)
        if self.on_report is not None:
            self.on_report(resource.kind, reason)
