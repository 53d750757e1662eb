"""The page about Trimtab as a library: every example prints what it says, and every promised name is there."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

from trimtab import placement, ranking

PAGE = Path(__file__).parents[2] / "docs" / "library.md"


def test_the_examples_of_the_page_print_what_it_says() -> None:
    """They are run in order, as a reader would type them."""
    done = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.attempted > 20
    assert done.failed == 0


@pytest.mark.parametrize("package", [ranking, placement])
def test_everything_that_is_promised_is_documented_and_typed(package: object) -> None:
    """`__all__` is the promise; a type or function without a docstring cannot be kept."""
    names = package.__all__  # type: ignore[attr-defined]
    assert list(names) == sorted(names)
    for name in names:
        found = getattr(package, name)
        assert inspect.getdoc(found), name
        if inspect.isfunction(found):
            assert set(inspect.signature(found).parameters) <= set(found.__annotations__), name
