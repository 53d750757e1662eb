"""Findings, and the rules that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from trimtab.api.model import Model
from trimtab.inspection.lint.world import ObjectRef, World

PAGE = "docs/lint.md"


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Pods will not be scheduled, or a rollout will not end."""
    WARNING = "warning"
    """Workloads are not spread, or not kept level, as the author asked for."""
    NOTE = "note"
    """Worth knowing; the workload works."""


SEVERITIES = tuple(Severity)


class Finding(Model, omit_defaults=False):
    """One thing that keeps a workload from being level."""

    id: str
    severity: str
    kind: str
    namespace: str
    name: str
    message: str
    fix: str
    docs: str
    file: str = ""
    line: int = 0

    @property
    def subject(self) -> str:
        """The object for people."""
        return str(ObjectRef(self.kind, self.namespace, self.name))


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule found about an object."""

    ref: ObjectRef
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
    check: Callable[[World], Iterator[Problem]]
    needs_nodes: bool = False

    @property
    def anchor(self) -> str:
        """Where the documentation explains it."""
        return f"{PAGE}#{self.id.lower()}-{self.name}"

    def findings(self, world: World) -> Iterator[Finding]:
        """Everything that it finds."""
        for problem in self.check(world):
            ref = problem.ref
            yield Finding(
                id=self.id,
                severity=(problem.severity or self.severity).value,
                kind=ref.kind,
                namespace=ref.namespace,
                name=ref.name,
                message=problem.message,
                fix=problem.fix or self.fix,
                docs=self.anchor,
                file=ref.file,
                line=ref.line,
            )
