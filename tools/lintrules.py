"""Writes `docs/lint.md` from the table of rules."""

from __future__ import annotations

from pathlib import Path

from trimtab.inspection.lint.rules import RULES

TARGET = Path(__file__).parents[1] / "docs" / "lint.md"
HEADING = """# Lint rules

[`trimtab lint`](commands/lint.md) finds what keeps workloads from being level: in manifests, in a file of `trimtab
snapshot`, or in a live cluster. This page is generated from `src/trimtab/inspection/lint/rules.py` by `make generate`.

An *error* means that pods will not be scheduled, or that a rollout will not end; a *warning*, that workloads are not
spread or not kept level as their author asked for; a *note* is worth knowing, and the workload works. Rules that need
nodes are left out where none are known: add `--live` or `--snapshot FILE`, or Node manifests.
"""


def page() -> str:
    """The page."""
    return HEADING + "".join(
        f"\n## {rule.id} {rule.name}\n\n**{rule.summary}** ({rule.severity.value}"
        f"{', needs nodes' if rule.needs_nodes else ''})\n\n{rule.why}\n\n*Fix:* {rule.fix}\n"
        for rule in RULES
    )


def main() -> None:
    """Write the page."""
    TARGET.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
