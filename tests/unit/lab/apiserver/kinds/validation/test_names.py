"""The forms of names; their messages are compared with recordings in `test_recordings`."""

from __future__ import annotations

import pytest

from trimtab_lab.apiserver.kinds.validation import names


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        pytest.param(names.label, ["a", "a-b", "1", "a" * 63], ["", "-a", "a-", "A", "a.b", "a" * 64], id="labels"),
        pytest.param(
            names.label_1035, ["a", "a-1"], ["1a", "a.b", "A", "a" * 64], id="labels that start with a letter"
        ),
        pytest.param(
            names.subdomain, ["a", "a.b", "a-b.c"], ["", "a..b", ".a", "a.", "A.b", "a" * 254], id="DNS names"
        ),
        pytest.param(
            names.subdomain_with_underscore, ["_a.b_c"], ["a_.b", "__"], id="DNS names with underscores in them"
        ),
        pytest.param(names.path_segment, ["a:b", "A", "..a"], [".", "..", "a/b", "a%b"], id="parts of a URL"),
        pytest.param(
            names.qualified,
            ["a", "A.b_c-d", "example.com/Name"],
            ["", "/a", "a/", "a/b/c", "A.B/c", "-a", "a" * 64],
            id="keys of labels",
        ),
        pytest.param(names.label_value, ["", "a", "A_b.c-1"], ["-", "a ", "a" * 64], id="values of labels"),
        pytest.param(
            names.port_name, ["http", "a-1"], ["", "1", "A", "a--b", "-a", "a-", "a" * 16], id="names of ports"
        ),
        pytest.param(names.percent, ["0%", "100%"], ["", "%", "1", "-1%", "1.5%"], id="percentages"),
        pytest.param(names.header, ["X-A"], ["", "a b", "a_b"], id="headers"),
        pytest.param(
            names.config_key, ["a", ".a", "A_b.c"], ["", ".", "..", "..a", "a b", "a" * 254], id="keys of data"
        ),
        pytest.param(names.variable, ["a", "a b", "1", "a.b"], ["", "a=b", "ä", "a\n"], id="variables"),
        pytest.param(names.condition_reason, ["Ready", "A_b,c:d"], ["", "1a", "a,"], id="reasons"),
    ],
)
def test_a_form_accepts_valid_names_only(form: names.OutputFormat, good: list[str], bad: list[str]) -> None:
    """Valid text has no errors, invalid text has some."""
    assert {text: form(text) for text in good} == dict.fromkeys(good, ())
    assert [text for text in bad if not form(text)] == []


@pytest.mark.parametrize(
    ("text", "good"),
    [
        pytest.param("web-", True, id="it may end in a dash"),
        pytest.param("-", False, id="it may not be one"),
        pytest.param("Web-", False, id="the rest is as strict as ever"),
    ],
)
def test_a_prefix_may_end_in_a_dash(text: str, good: bool) -> None:
    """Characters are appended to it."""
    assert (names.prefix(names.subdomain, text) == ()) is good
