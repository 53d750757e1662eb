"""Resource versions: which of two is newer."""

from __future__ import annotations

import pytest

from trimtab.kube import versions


@pytest.mark.parametrize(
    ("seen", "wanted", "want"),
    [
        pytest.param("10", "9", True, id="numbers, not texts"),
        pytest.param("9", "10", False, id="an older one"),
        pytest.param("10", "10", True, id="the same one"),
        pytest.param("", "10", False, id="nothing seen yet"),
        pytest.param("abc", "abc", True, id="opaque and equal"),
        pytest.param("abc", "10", False, id="opaque versions cannot be compared"),
        pytest.param("٣", "2", False, id="digits of other scripts are no version"),
        pytest.param("99999999999999999999999", "9", True, id="beyond 64 bits"),
    ],
)
def test_reached(seen: str, wanted: str, want: bool) -> None:
    """A reader of a version has seen the earlier ones."""
    assert versions.reached(seen, wanted) is want
