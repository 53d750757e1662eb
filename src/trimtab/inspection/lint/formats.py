"""Findings as CI reads them: SARIF 2.1.0, and the workflow commands of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab import __version__
from trimtab.api.documents import JSON
from trimtab.inspection.lint.findings import Finding
from trimtab.inspection.lint.rules import RULES, LintResult

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def sarif(result: LintResult) -> JSON:
    """The result as a SARIF log."""
    numbers = {rule.id: at for at, rule in enumerate(RULES)}
    driver = {
        "name": "trimtab",
        "version": __version__,
        "rules": [
            {
                "id": rule.id,
                "name": rule.name,
                "shortDescription": {"text": rule.summary},
                "fullDescription": {"text": rule.why},
                "help": {"text": f"{rule.fix} See {rule.anchor}."},
                "defaultConfiguration": {"level": rule.severity.value},
            }
            for rule in RULES
        ],
    }
    results = [_result(finding, numbers[finding.id]) for finding in result.findings]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(finding: Finding, rule: int) -> JSON:
    name = finding.subject
    location: JSON = {"logicalLocations": [{"fullyQualifiedName": name, "kind": "resource"}]}
    if finding.file:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": finding.file},
            "region": {"startLine": max(finding.line, 1)},
        }
    return {
        "ruleId": finding.id,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": f"{name}: {finding.message}. Fix: {finding.fix}"},
        "locations": [location],
    }


def github(result: LintResult) -> Iterator[str]:
    """The result as workflow commands, a line for each finding."""
    for finding in result.findings:
        place = f"file={_property(finding.file)},line={max(finding.line, 1)}," if finding.file else ""
        title = _property(f"{finding.id} {finding.subject}")
        message = _data(f"{finding.message}. Fix: {finding.fix} ({finding.docs})")
        yield f"::{_COMMANDS[finding.severity]} {place}title={title}::{message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
