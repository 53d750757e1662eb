"""YAML files that users write: whatever is wrong, the error names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.api.errors import InvalidError
from trimtab.kube.files import read_yaml


def test_an_object_is_read(tmp_path: Path) -> None:
    """As plain values; an anchor may be used several times."""
    path = tmp_path / "trimtab.yaml"
    path.write_text("a: &one {b: [1, 2.5, yes]}\nc: *one\n")
    assert read_yaml(path) == {"a": {"b": [1, 2.5, True]}, "c": {"b": [1, 2.5, True]}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(b"a: [", "is not YAML", id="text that ends too early"),
        pytest.param(b"a: !!int b", "cannot be read as what it is written as", id="a value that does not fit its tag"),
        pytest.param(b"a: 2026-99-99", "cannot be read as what it is written as", id="a date that does not exist"),
        pytest.param(b"a: !!timestamp b", "cannot be read as what it is written as", id="a time that is none"),
        pytest.param(b"a: " + b"[" * 500, "nested too deeply", id="deep nesting"),
        pytest.param(b"a: &b [*b]", "an anchor contains an alias of itself", id="a list inside itself"),
        pytest.param(b"a: &b {c: {d: *b}}", "an anchor contains an alias of itself", id="a mapping inside itself"),
        pytest.param(b'a: ["\\ud800"]', "half of a surrogate pair", id="half of a character"),
        pytest.param(b'{"\\udfff": 1}', "half of a surrogate pair", id="half of a character as a key"),
        pytest.param(b"a: \xff", "is not YAML", id="bytes that are no text"),
        pytest.param(b"- a", "must contain one YAML object", id="a list"),
        pytest.param(b"", "must contain one YAML object", id="nothing"),
    ],
)
def test_a_bad_file_is_refused_with_its_name(text: bytes, reason: str, tmp_path: Path) -> None:
    """And nothing else is ever raised."""
    path = tmp_path / "trimtab.yaml"
    path.write_bytes(text)
    with pytest.raises(InvalidError) as caught:
        read_yaml(path)
    assert caught.value.path == str(path)
    assert reason in caught.value.reason


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    """With the reason that the system gives."""
    with pytest.raises(InvalidError, match=r"absent\.yaml: cannot be read: No such file"):
        read_yaml(tmp_path / "absent.yaml")
