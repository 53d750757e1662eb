"""The user of a request, as authentication finds it and admission webhooks receive it."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab_lab.apiserver.storage.store import Tree

AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    """A user name and its groups."""

    name: str
    groups: tuple[str, ...] = ()

    def tree(self) -> Tree:
        """The `userInfo` of an AdmissionReview."""
        return {"username": self.name, "groups": list(self.groups)}
