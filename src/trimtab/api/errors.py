"""The one way this package says that input is wrong: which field, and why."""

from __future__ import annotations


class InvalidError(ValueError):
    """Input that cannot be used: `path` names the field, `reason` says why and, where it can, what to write instead.

    The path is written as Kubernetes writes it: `spec.subsets[1].maxReplicas`, `metadata.labels[example.com/tier]`.
    It is empty where the whole document is meant.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason

    def under(self, prefix: str) -> InvalidError:
        """The same error seen from a document that holds this one at `prefix`."""
        if not self.path:
            return InvalidError(prefix, self.reason)
        joint = "" if self.path.startswith("[") else "."
        return InvalidError(f"{prefix}{joint}{self.path}", self.reason)
