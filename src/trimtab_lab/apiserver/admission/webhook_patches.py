"""The request between one mutating webhook and the next: patches, and which webhooks are reinvoked."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import jsonpatch

from trimtab_lab.apiserver.admission.admission_reviews import ReviewRequest, ReviewResponse
from trimtab_lab.apiserver.kinds.errors import internal_error
from trimtab_lab.apiserver.storage.store import Tree


class Reinvocations:
    """Which webhooks are called again: those with `IfNeeded` that were called before the object last changed."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.again: set[str] = set()
        self.changed = False

    def note_change(self) -> None:
        """Record that the object changed after the webhooks that were called so far."""
        self.changed = True
        self.again.update(self.called)
        self.called.clear()


class PatchedRequest:
    """A request whose object webhooks patch, one after the other."""

    def __init__(self, request: ReviewRequest, complete: Callable[[Tree], None]) -> None:
        self.request = request
        self.changed = False
        self._complete = complete

    def apply(self, name: str, response: ReviewResponse) -> bool:
        """Apply the patch of the webhook `name`; whether it changed the object. Raises StatusError."""
        if not response.patch:
            return False
        tree = self.request.object
        if tree is None:
            problem = "attempted to modify the object, which is not supported for this operation"
            raise internal_error(f'admission webhook "{name}" {problem}')
        patched = copy.deepcopy(tree)
        for operation in response.patch:
            patched = _apply(operation, patched)
        self._complete(patched)
        changed = patched != tree
        self.changed = self.changed or changed
        self.request = replace(self.request, object=patched)
        return changed


def _apply(operation: Tree, tree: Tree) -> Tree:
    """The tree after one operation of a patch. Raises StatusError with Kubernetes' message."""
    name, path = operation.get("op", ""), operation.get("path", "")
    try:
        parent, key = jsonpatch.JsonPointer(path).to_last(tree)
        if name == "replace" and isinstance(parent, dict) and key not in parent:
            operation = {**operation, "op": "add"}  # as Kubernetes does
        patched: Tree = jsonpatch.JsonPatch([operation]).apply(tree, in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, AttributeError, TypeError, KeyError):
        raise internal_error(_patch_problem(str(name), str(path))) from None
    return patched


def _patch_problem(name: str, path: str) -> str:
    if name == "test":
        return f"testing value {path} failed: test failed"
    shown = path if name == "replace" else f'"{path}"'
    return f"{name} operation does not apply: doc is missing path: {shown}: missing value"
