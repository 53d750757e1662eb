"""Findings about an installation, and the rules that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trimtab.api.documents import JSON
from trimtab.api.model import Model
from trimtab.doctor.facts import Facts
from trimtab.inspection.lint.findings import Severity

PAGE = "docs/doctor.md"


class Finding(Model, omit_defaults=False):
    """One thing that is wrong with an installation."""

    id: str
    severity: str
    object: str
    """What it is about: `Deployment trimtab-system/trimtab-webhooks`."""
    message: str
    fix: str
    docs: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What a check found about an object."""

    object: str
    message: str
    fix: str = ""
    """How to fix this one, where that is more than the rule's own fix."""
    severity: Severity | None = None
    """Where it differs from the rule's own."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what it finds, why that matters, and how to fix it."""

    id: str
    name: str
    severity: Severity
    summary: str
    why: str
    fix: str
    check: Callable[[Facts], Iterator[Problem]]
    needs: tuple[str, ...] = ()
    """The fields of `Facts` without which it cannot be checked."""

    @property
    def anchor(self) -> str:
        """Where the documentation explains it."""
        return f"{PAGE}#{self.id.lower()}-{self.name}"

    def can_check(self, facts: Facts) -> bool:
        """Whether everything that it needs was read."""
        return not any(each in facts.gaps for each in self.needs)

    def findings(self, facts: Facts) -> Iterator[Finding]:
        """Everything that it finds."""
        for problem in self.check(facts):
            yield Finding(
                id=self.id,
                severity=(problem.severity or self.severity).value,
                object=problem.object,
                message=problem.message,
                fix=problem.fix or self.fix,
                docs=self.anchor,
            )


def name_of(tree: JSON) -> str:
    """An object for people: `Deployment trimtab-system/trimtab-webhooks`."""
    metadata = tree["metadata"]
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{tree['kind']} {namespace}{metadata['name']}"
