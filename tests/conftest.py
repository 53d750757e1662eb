"""What all tests share: the closing line."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Close with one plain line that is read the same whatever runs the tests."""
    stats = terminalreporter.stats
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    skipped = f", {len(stats['skipped'])} skipped" if stats.get("skipped") else ""
    terminalreporter.write_line(f"{len(stats.get('passed', []))} passed, {failed} failed{skipped}")
