"""Writes `docs/doctor.md` from the table of rules."""

from __future__ import annotations

from pathlib import Path

from trimtab.doctor.rules import RULES

TARGET = Path(__file__).parents[1] / "docs" / "doctor.md"
HEADING = """# Findings of doctor

[`trimtab doctor`](commands/doctor.md) checks an installation and changes nothing. This page is generated from
`src/trimtab/doctor/rules.py` by `make generate`.

An *error* means that a part of Trimtab does not work; a *warning*, that it does not work as was asked for, or soon will
not; a *note* is worth knowing. Beside reads, the command makes two kinds of requests, and neither stores anything:
SelfSubjectAccessReviews in the name of each component's ServiceAccount, and the creation of a ScaleDownPolicy as a dry
run. What your account may not read is named, with the findings that were not looked for.
"""


def page() -> str:
    """The page."""
    return HEADING + "".join(
        f"\n## {rule.id} {rule.name}\n\n**{rule.summary}** ({rule.severity.value})\n\n{rule.why}\n\n*Fix:* {rule.fix}\n"
        for rule in RULES
    )


def main() -> None:
    """Write the page."""
    TARGET.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
