"""Values that are found by the packed form of what they depend on."""

from __future__ import annotations

import pytest

from trimtab.snapshot import books
from trimtab.snapshot.books import Book


def test_a_value_is_computed_once() -> None:
    book: Book[list[int]] = Book()
    first = book.get(b"a", list)
    assert book.get(b"a", list) is first


@pytest.mark.parametrize("limit", ["_LIMIT", "_BYTES"])
def test_a_large_book_is_cleared(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """By the number of its keys, or by their bytes."""
    monkeypatch.setattr(books, limit, 10)
    book: Book[int] = Book()
    for number in range(25):
        assert book.get(b"%d" % (number % 10), lambda: 1) == 1
        assert len(book) <= 10
        book.get(b"x%d" % number, lambda: 2)
    assert book.times_cleared > 2
