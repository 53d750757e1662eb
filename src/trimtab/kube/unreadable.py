"""The objects of a cluster that cannot be read, by kind and key.

An object that does not fit its type, or is too complex, is skipped: everything else goes on without it. So that this
does not go unnoticed, every client has one `UnreadableObjects`, to which its lists and informers report. It logs
each object once, and calls a function that counts it and writes an event.

**What is skipped** is that version of the object. If an earlier version was read, an informer keeps it until the object
is corrected or deleted: an object that exists must not be treated as deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trimtab.api.meta import ObjectReference
from trimtab.kube.resources import Resource
from trimtab.kube.watches import RejectedObject

log = logging.getLogger(__name__)

_REMEMBERED = 1000
"""How many objects are remembered; further ones are counted, and logged at debug level."""


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object that cannot be read, and why."""

    about: ObjectReference
    reason: str

    def __str__(self) -> str:
        name = f"{self.about.namespace}/{self.about.name}" if self.about.namespace else self.about.name
        return f"{self.about.kind} {name or '(without a name)'} cannot be read: {self.reason}"


class UnreadableObjects:
    """The objects that could not be read when they were last seen."""

    def __init__(self) -> None:
        self.on_report: Callable[[UnreadableObject], None] | None = None
        """Called once for each version of an object that cannot be read."""
        self._known: dict[tuple[str, str, str], UnreadableObject] = {}

    @property
    def current(self) -> Sequence[UnreadableObject]:
        """The objects that could not be read when they were last seen, in the order in which they were found."""
        return tuple(self._known.values())

    def report(self, resource: Resource[object], rejected: RejectedObject) -> None:
        """Note an object that cannot be read. The same version is reported once, whoever finds it."""
        place = (resource.kind, rejected.namespace, rejected.name)
        about = ObjectReference(
            api_version=resource.api_version,
            kind=resource.kind,
            namespace=rejected.namespace,
            name=rejected.name,
            uid=rejected.uid,
            resource_version=rejected.resource_version,
        )
        known = self._known.get(place)
        if known is not None and known.about == about:
            return
        found = UnreadableObject(about, f"{rejected.error}" or type(rejected.error).__name__)
        has_room = known is not None or len(self._known) < _REMEMBERED
        if has_room:
            self._known[place] = found
        is_news = has_room and (known is None or known.reason != found.reason)
        log.log(
            logging.ERROR if is_news else logging.DEBUG,
            "%s; it is skipped, and a version that was read before is used until it is corrected",
            found,
        )
        if self.on_report is not None:
            self.on_report(found)

    def resolve(self, resource: Resource[object], namespace: str, name: str) -> None:
        """Note that an object can be read, or is gone."""
        if self._known:
            self._known.pop((resource.kind, namespace, name), None)


def sweep_failures(kind: str, rejected: Iterable[RejectedObject], includes: Callable[[str], bool]) -> dict[str, str]:
    """Why a sweep of some namespaces leaves objects as they are that it cannot read, by kind and key."""
    return {
        f"{kind} {each.key}": f"cannot be read, and is left as it is: {each.error}"
        for each in rejected
        if includes(each.namespace or each.name)
    }
