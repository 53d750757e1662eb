"""The user of a request, as authentication finds it and admission webhooks receive it."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab_lab.apiserver.storage.store import Tree

AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    """A user name and its groups; a ServiceAccount has a UID and further attributes as well."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def tree(self) -> Tree:
        """The `userInfo` of an AdmissionReview."""
        tree: Tree = {"username": self.name, **({"uid": self.uid} if self.uid else {}), "groups": list(self.groups)}
        return tree | ({"extra": {name: list(values) for name, values in self.extra}} if self.extra else {})
