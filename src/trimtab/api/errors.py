"""The error for invalid input: which field, and why."""

from __future__ import annotations


class InvalidError(ValueError):
    """Invalid input: `path` names the field, `reason` says why and, where possible, what to write instead.

    The path is written as Kubernetes writes it: `spec.subsets[1].maxReplicas`, `metadata.labels[example.com/tier]`.
    It is empty for the whole document.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason

    def under(self, prefix: str) -> InvalidError:
        """The same error with `prefix` before its path."""
        if not self.path:
            return InvalidError(prefix, self.reason)
        joint = "" if self.path.startswith("[") else "."
        return InvalidError(f"{prefix}{joint}{self.path}", self.reason)
