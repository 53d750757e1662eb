"""What all tests share: the closing line, and the flag that rewrites golden results."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("trimtab", settings(deadline=None))  # of any profile: no test depends on the time it takes
settings.load_profile("trimtab")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest tests/scenarios --rewrite-golden` writes what stories lead to now; read the diff before you commit it."""
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden results of stories anew")


@pytest.fixture(autouse=True)
def logs_as_they_are() -> Iterator[None]:
    """What a test, or a library that it calls, does to loggers ends with it: the next may look at what is logged."""
    loggers = [logging.getLogger(name) for name in ("", "trimtab")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)
    for name, each in logging.root.manager.loggerDict.items():
        if isinstance(each, logging.Logger) and name.startswith("trimtab"):
            each.disabled = False


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have to tell (`record_property("told", …)`), and one plain line that is read the same whatever runs
    the tests."""
    stats = terminalreporter.stats
    for report in stats.get("passed", []):
        for name, text in getattr(report, "user_properties", ()):
            if name == "told":
                terminalreporter.write_line(f"{report.nodeid}: {text}")
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    skipped = f", {len(stats['skipped'])} skipped" if stats.get("skipped") else ""
    terminalreporter.write_line(f"{len(stats.get('passed', []))} passed, {failed} failed{skipped}")
