"""The generated pages of the documentation: current, and complete."""

from __future__ import annotations

import pytest

from tools import commands, lintrules, metrics, performance, reasons
from trimtab.api.annotations import Reason


def test_the_page_of_reasons_is_current() -> None:
    """`make generate` writes it."""
    assert reasons.TARGET.read_text() == reasons.page()


def test_every_reason_is_documented() -> None:
    """With where it appears and what it means."""
    entries = list(reasons.entries())
    assert [entry.reason for entry in entries] == [reason.value for reason in Reason]
    assert all(entry.where and entry.meaning for entry in entries)


@pytest.mark.parametrize("docstring", ["", "The policy works.", "Event on Pod"])
def test_a_docstring_of_another_form_is_refused(docstring: str) -> None:
    """A reason that is added must say where it appears."""
    with pytest.raises(ValueError, match="Where: Meaning"):
        reasons._entry("New", docstring)  # noqa: SLF001 - what a new member would meet


def test_the_page_of_performance_is_current() -> None:
    """`make generate` writes it from the results of `make bench-scale`."""
    assert performance.TARGET.read_text() == performance.generate()


def test_the_page_of_metrics_is_current() -> None:
    """`make generate` writes it."""
    assert metrics.TARGET.read_text() == metrics.page()


def test_every_metric_says_what_it_measures() -> None:
    """In its help text."""
    assert [family.name for family in metrics.registered().collect() if not family.documentation] == []


def test_the_pages_of_commands_are_current() -> None:
    """`make generate` writes one for each command; none is left of a command that is gone."""
    assert {path.name: path.read_text() for path in commands.FOLDER.glob("*.md")} == commands.pages()


def test_the_text_of_help_is_what_click_prints() -> None:
    """It is a file, so that `trimtab --help` need not import click."""
    assert commands.HELP.read_text() == commands.overview()


def test_every_page_of_a_command_has_examples() -> None:
    """But the lab's, whose commands are those of another distribution."""
    pages = commands.pages()
    assert [name for name, text in pages.items() if "## Examples" not in text] == ["index.md", "lab.md"]


def test_the_page_of_lint_rules_is_current() -> None:
    """`make generate` writes it."""
    assert lintrules.TARGET.read_text() == lintrules.page()
