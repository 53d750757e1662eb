"""One view of the cluster: typed objects beside numpy columns, kept up to date event by event.

Belongs here: pods and nodes in the form that decisions scan; counts that events keep current; assumed pods.

Does not belong here: any decision. A column holds facts, never what should be.

May import: the standard library, msgspec, numpy, and `trimtab.api`.

Decisions are made synchronously on the live columns, between events: copying them for each decision would cost more
than the decision. A decision must not await.
"""

from trimtab.snapshot.view import MIRRORED, Snapshot

__all__ = ["MIRRORED", "Snapshot"]
