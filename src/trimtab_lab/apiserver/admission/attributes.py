"""One write as admission sees it; Kubernetes calls this the attributes of a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from trimtab_lab.apiserver.admission.admission_reviews import Operation, Resource, ReviewRequest
from trimtab_lab.apiserver.admission.users import User
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.storage.store import Tree

Step = Callable[[Tree], None]
"""Changes an object in place."""


def _nothing(_tree: Tree) -> None:
    """Change nothing."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """A write that is to be admitted. Objects have no `kind` and `apiVersion`, as everywhere in the server.

    `type` is the type of the request's body where that is not an object of the kind (a Scale, a Binding). `complete`
    decodes and defaults an object that a webhook patched; `reinvoke` runs the built-in plugins once more.
    """

    operation: Operation
    kind: Kind
    user: User
    namespace: str
    name: str
    object: Tree | None
    old: Tree | None = None
    subresource: str = ""
    dry_run: bool = False
    options: Tree | None = None
    type: tuple[str, str] | None = None
    complete: Step = _nothing
    reinvoke: Step = _nothing

    def with_object(self, tree: Tree, name: str = "") -> Attributes:
        """The same write with another object."""
        return replace(self, object=tree, name=name or self.name)

    def review_request(self) -> ReviewRequest:
        """The write as an AdmissionReview describes it."""
        return ReviewRequest(
            operation=self.operation,
            resource=resource_of(self.kind),
            object=self._with_type(self.object),
            old=self._with_type(self.old),
            subresource=self.subresource,
            namespace=self.namespace or (self.name if self.kind.collection == "/namespaces" else ""),
            name=self.name,
            user=self.user.tree(),
            options=self.options,
            dry_run=self.dry_run,
            sent_kind=self.type,
        )

    def _with_type(self, tree: Tree | None) -> Tree | None:
        if tree is None:
            return None
        api_version, kind = self.type or (self.kind.api_version, self.kind.kind)
        return {"kind": kind, "apiVersion": api_version, **tree}


def resource_of(kind: Kind) -> Resource:
    """A kind as the rules of webhooks name it."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind)
