"""Label selectors match, print, combine and refuse as those of Kubernetes do."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api import codec, selectors
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector, LabelSelectorRequirement
from trimtab.api.selectors import EVERYTHING, NOTHING, FieldTerm, Operator, Requirement, Selector


def written(**tree: Any) -> LabelSelector:
    """A label selector from its JSON."""
    return codec.convert(tree, LabelSelector)


def expression(operator: str, *values: str, key: str = "app") -> LabelSelector:
    """A label selector of one expression."""
    return written(matchExpressions=[{"key": key, "operator": operator, "values": list(values)}])


@pytest.mark.parametrize(
    ("selector", "labels", "want"),
    [
        pytest.param(written(), {"app": "web"}, True, id="an empty selector matches all labels"),
        pytest.param(written(), {}, True, id="an empty selector matches no labels too"),
        pytest.param(None, {"app": "web"}, False, id="an absent selector matches nothing"),
        pytest.param(
            written(matchLabels={"app": "web"}), {"app": "web", "x": "y"}, True, id="other labels may be there"
        ),
        pytest.param(written(matchLabels={"app": "web"}), {"app": "api"}, False, id="another value does not match"),
        pytest.param(written(matchLabels={"app": ""}), {}, False, id="an empty value is not an absent label"),
        pytest.param(written(matchLabels={"app": ""}), {"app": ""}, True, id="an empty value matches an empty value"),
        pytest.param(expression("In", "web", "api"), {"app": "api"}, True, id="In takes any of its values"),
        pytest.param(expression("In", "web", "api"), {}, False, id="In needs the label"),
        pytest.param(expression("NotIn", "web"), {"app": "api"}, True, id="NotIn takes any other value"),
        pytest.param(expression("NotIn", "web"), {"app": "web"}, False, id="NotIn refuses its values"),
        pytest.param(expression("NotIn", "web"), {}, True, id="NotIn takes an absent label"),
        pytest.param(expression("Exists"), {"app": ""}, True, id="Exists takes an empty value"),
        pytest.param(expression("Exists"), {}, False, id="Exists needs the label"),
        pytest.param(expression("DoesNotExist"), {}, True, id="DoesNotExist takes an absent label"),
        pytest.param(expression("DoesNotExist"), {"app": ""}, False, id="DoesNotExist refuses an empty value"),
        pytest.param(
            written(matchLabels={"app": "web"}, matchExpressions=[{"key": "tier", "operator": "Exists"}]),
            {"app": "web"},
            False,
            id="labels and expressions must all hold",
        ),
    ],
)
def test_matching(selector: LabelSelector | None, labels: Mapping[str, str], want: bool) -> None:
    """A compiled selector matches these labels, or does not."""
    assert selectors.compile(selector).matches(labels) is want


@pytest.mark.parametrize(
    ("selector", "path"),
    [
        pytest.param(expression("in", "web"), "matchExpressions[0].operator", id="an operator in lower case"),
        pytest.param(expression("Gt", "1"), "matchExpressions[0].operator", id="an operator of node selectors"),
        pytest.param(expression("="), "matchExpressions[0].operator", id="an operator of selector text"),
        pytest.param(expression("In"), "matchExpressions[0].values", id="In without values"),
        pytest.param(expression("NotIn"), "matchExpressions[0].values", id="NotIn without values"),
        pytest.param(expression("Exists", "web"), "matchExpressions[0].values", id="Exists with a value"),
        pytest.param(expression("DoesNotExist", ""), "matchExpressions[0].values", id="DoesNotExist with a value"),
        pytest.param(expression("In", "ok", "not ok"), "matchExpressions[0].values[1]", id="a value with a space"),
        pytest.param(expression("In", "-x"), "matchExpressions[0].values[0]", id="a value that starts with a dash"),
        pytest.param(expression("Exists", key="a b"), "matchExpressions[0].key", id="a key with a space"),
        pytest.param(expression("Exists", key=""), "matchExpressions[0].key", id="an empty key"),
        pytest.param(expression("Exists", key="a/"), "matchExpressions[0].key", id="a key without a name"),
        pytest.param(expression("Exists", key="/a"), "matchExpressions[0].key", id="a key with an empty prefix"),
        pytest.param(expression("Exists", key="A.com/a"), "matchExpressions[0].key", id="a prefix in capitals"),
        pytest.param(expression("Exists", key="app\n"), "matchExpressions[0].key", id="a key that ends in a newline"),
        pytest.param(written(matchLabels={"a/b/c": "x"}), "matchLabels[a/b/c]", id="a key with two slashes"),
        pytest.param(written(matchLabels={"app": "x" * 64}), "matchLabels[app]", id="a value of 64 letters"),
        pytest.param(written(matchLabels={"x" * 64: ""}), f"matchLabels[{'x' * 64}]", id="a name of 64 letters"),
        pytest.param(
            written(matchLabels={f"{'x' * 254}/a": ""}), f"matchLabels[{'x' * 254}/a]", id="a prefix of 254 letters"
        ),
        pytest.param(
            written(matchExpressions=[{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Is"}]),
            "matchExpressions[1].operator",
            id="the second of two expressions",
        ),
    ],
)
def test_refusals_name_the_field(selector: LabelSelector, path: str) -> None:
    """What Kubernetes refuses is refused, and the error says where it stands."""
    with pytest.raises(InvalidError) as caught:
        selectors.compile(selector)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("text", "same"),
    [
        pytest.param("", "", id="nothing written selects everything"),
        pytest.param("  ", "", id="blanks select everything"),
        pytest.param("app=web", "app=web", id="equality"),
        pytest.param("app==web", "app=web", id="two equals signs mean one"),
        pytest.param("app!=web", "app!=web", id="inequality"),
        pytest.param("app", "app", id="a key alone must exist"),
        pytest.param("!app", "!app", id="an exclamation mark means absent"),
        pytest.param("! app", "!app", id="blanks mean nothing"),
        pytest.param("app=", "app=", id="an empty value"),
        pytest.param("app=,b", "app=,b", id="an empty value before a comma"),
        pytest.param("z=1,a=2", "a=2,z=1", id="keys are sorted"),
        pytest.param("a=1,a=1", "a=1", id="a repetition adds nothing"),
        pytest.param("app in (web,api)", "app in (api,web)", id="a set is sorted"),
        pytest.param("app notin(web)", "app notin (web)", id="a parenthesis ends the operator"),
        pytest.param("app in ()", "app in ()", id="empty parentheses hold the empty value"),
        pytest.param("app in (,web)", "app in (,web)", id="an empty value before the comma"),
        pytest.param("app in (web,)", "app in (,web)", id="an empty value after the comma"),
        pytest.param("app in (a,,b)", "app in (,a,b)", id="an empty value between commas"),
        pytest.param("in in (in,notin)", "in in (in,notin)", id="in can be a key and a value"),
        pytest.param("notin", "notin", id="notin can be a key"),
        pytest.param("cores>8", "cores>8", id="more than"),
        pytest.param("cores<08", "cores<08", id="less than, as written"),
        pytest.param("a\t=\r\nb", "a=b", id="tabs and line ends are blanks"),
    ],
)
def test_parsing(text: str, same: str) -> None:
    """Text is read as `kubectl -l` reads it, and printed canonically."""
    assert str(selectors.parse(text)) == same


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("app=web,", id="a comma at the end"),
        pytest.param(",app=web", id="a comma at the start"),
        pytest.param("app=web tier=front", id="two requirements without a comma"),
        pytest.param("app=(web)", id="equality with a set"),
        pytest.param("app in web", id="a set without parentheses"),
        pytest.param("app in (web", id="a set that is not closed"),
        pytest.param("app in (a b)", id="a set without a comma"),
        pytest.param("app in (a!)", id="an operator in a set"),
        pytest.param("app is web", id="an unknown operator"),
        pytest.param("=web", id="no key"),
        pytest.param("!", id="absence of nothing"),
        pytest.param("!!app", id="two exclamation marks"),
        pytest.param("!app=web", id="absence and equality"),
        pytest.param("app===web", id="three equals signs"),
        pytest.param("cores>", id="more than nothing"),
        pytest.param("cores>many", id="more than a word"),
        pytest.param("cores>-1", id="a negative number, which no label value can be"),
        pytest.param("cores>9223372036854775808", id="a number beyond 64 bits"),
        pytest.param("a/b/c", id="a key that is none"),
        pytest.param("app=-", id="a value that is none"),
    ],
)
def test_malformed_text_is_refused(text: str) -> None:
    """Text that kubectl refuses is refused, with the text in the error."""
    with pytest.raises(InvalidError) as caught:
        selectors.parse(text)
    assert f'"{text}"' in caught.value.reason


@pytest.mark.parametrize(
    ("label", "more", "less"),
    [
        pytest.param("9", True, False, id="a larger number is more"),
        pytest.param("7", False, True, id="a smaller number is less"),
        pytest.param("8", False, False, id="the same number is neither"),
        pytest.param("+9", True, False, id="a plus sign is part of a number"),
        pytest.param("-9", False, True, id="so is a minus sign"),
        pytest.param("009", True, False, id="leading zeros mean nothing"),
        pytest.param("0" * 5000 + "9", True, False, id="however many there are"),
        pytest.param("9223372036854775807", True, False, id="the largest number is more"),
        pytest.param("9223372036854775808", False, False, id="a number beyond 64 bits is neither"),
        pytest.param("-9223372036854775808", False, True, id="the smallest number is less"),
        pytest.param("9.0", False, False, id="a fraction is neither"),
        pytest.param("9 ", False, False, id="a number and a blank is neither"),
        pytest.param("1_0", False, False, id="an underscore is not for numbers"),
        pytest.param("９", False, False, id="other digits are not for numbers"),
        pytest.param("", False, False, id="an empty value is neither"),
        pytest.param(None, False, False, id="an absent label is neither"),
    ],
)
def test_comparing_numbers(label: str | None, more: bool, less: bool) -> None:
    """A label is more, or less, than 8 as a 64-bit integer, or not at all."""
    labels = {} if label is None else {"cores": label}
    assert selectors.parse("cores>8").matches(labels) is more
    assert selectors.parse("cores<8").matches(labels) is less


def test_only_a_selector_without_requirements_is_empty() -> None:
    """Everything is empty, nothing is not: Kubernetes takes shortcuts where a selector is empty."""
    assert selectors.compile(LabelSelector()).empty
    assert not selectors.compile(None).empty
    assert not selectors.parse("app").empty


def test_nothing_stays_nothing() -> None:
    """No requirement, and no other selector, makes a selector match again that matches nothing."""
    assert NOTHING.with_requirements(Requirement("app", Operator.EXISTS)) == NOTHING
    assert EVERYTHING.and_(NOTHING) == NOTHING
    assert str(NOTHING) == ""


def test_labels_are_taken_unchecked() -> None:
    """A map selects what has exactly its labels, even labels that no object could have; an empty one, everything."""
    assert selectors.from_labels({}) == EVERYTHING
    assert str(selectors.from_labels({"b": "not ok", "a": "1"})) == "a=1,b=not ok"


def test_a_selector_survives_a_copy_into_another_process() -> None:
    """A selector that was pickled is equal to the original, and finds the same entry in a table."""
    selector = selectors.parse("app=web,tier in (front,back)")
    copied = pickle.loads(pickle.dumps(selector))  # noqa: S301 – our own bytes
    assert {selector: "here"}[copied] == "here"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", (), id="nothing written is no term"),
        pytest.param(",,", (), id="commas alone are no term"),
        pytest.param("spec.nodeName=n1", (FieldTerm("spec.nodeName", "n1"),), id="equality"),
        pytest.param("a==b", (FieldTerm("a", "b"),), id="two equals signs mean one"),
        pytest.param("a!=b", (FieldTerm("a", "b", negated=True),), id="inequality"),
        pytest.param("b=2,a=1", (FieldTerm("a", "1"), FieldTerm("b", "2")), id="terms are sorted"),
        pytest.param("a=", (FieldTerm("a", ""),), id="an empty value"),
        pytest.param("=", (), id="no field and no value is no term"),
        pytest.param(r"a=x\,y", (FieldTerm("a", "x,y"),), id="an escaped comma is part of the value"),
        pytest.param(r"a=x\=y", (FieldTerm("a", "x=y"),), id="so is an escaped equals sign"),
        pytest.param(r"a=x\\,b=y", (FieldTerm("a", "x\\"), FieldTerm("b", "y")), id="and an escaped backslash"),
    ],
)
def test_parsing_fields(text: str, want: tuple[FieldTerm, ...]) -> None:
    """A field selector is read as an API server reads it."""
    assert selectors.parse_fields(text) == want


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a", id="a term without an operator"),
        pytest.param("a=b=c", id="an equals sign that is not escaped"),
        pytest.param("a===b", id="three equals signs"),
        pytest.param(r"a=\x", id="an escape that does not exist"),
        pytest.param("a=b\\", id="a backslash at the end"),
    ],
)
def test_malformed_fields_are_refused(text: str) -> None:
    """A field selector that an API server refuses is refused."""
    with pytest.raises(InvalidError, match="is not a field selector"):
        selectors.parse_fields(text)


def test_an_absent_field_is_empty() -> None:
    """Fields are text: one that is not there equals the empty text, unlike a label."""
    assert FieldTerm("a", "").matches({})
    assert FieldTerm("a", "x", negated=True).matches({})
    assert not FieldTerm("a", "x").matches({})


# --- Laws

KEYS = st.sampled_from(["app", "tier", "example.com/rack", "in", "notin", "cores"])
VALUES = st.sampled_from(["", "web", "api", "in", "x.y_z-1", "7", "08"])
LABELS = st.dictionaries(KEYS, VALUES)
SOME_VALUES = st.lists(VALUES, min_size=1, max_size=3).map(tuple)


def _values(operator: Operator) -> st.SearchStrategy[tuple[str, ...]]:
    match operator:
        case Operator.IN | Operator.NOT_IN:
            return SOME_VALUES
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            return st.just(())
        case Operator.GREATER_THAN | Operator.LESS_THAN:
            return st.tuples(st.sampled_from(["0", "7", "08", "99"]))
    return st.tuples(VALUES)


REQUIREMENTS = st.sampled_from(Operator).flatmap(
    lambda operator: st.builds(selectors.requirement, KEYS, st.just(operator), _values(operator))
)
SELECTORS = st.lists(REQUIREMENTS, max_size=4).map(lambda requirements: Selector(tuple(requirements)))


@given(SELECTORS)
def test_printing_loses_nothing(selector: Selector) -> None:
    """A selector that is printed and read again is the same selector."""
    assert selectors.parse(str(selector)) == selector


@given(st.lists(REQUIREMENTS, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_requirements_means_nothing(requirements: list[Requirement], random: Any) -> None:
    """However they are shuffled, the same requirements are one key of a table."""
    shuffled = random.sample(requirements, len(requirements))
    assert {Selector(tuple(requirements)): 1}[Selector(tuple(shuffled))] == 1


@given(SELECTORS, SELECTORS, LABELS)
def test_and_is_both(one: Selector, other: Selector, labels: dict[str, str]) -> None:
    """One selector and another match where each of them does."""
    assert one.and_(other).matches(labels) is (one.matches(labels) and other.matches(labels))


@given(SELECTORS, LABELS)
def test_a_selector_is_its_requirements(selector: Selector, labels: dict[str, str]) -> None:
    """A selector matches where each of its requirements does."""
    assert selector.matches(labels) is all(r.matches(labels) for r in selector.requirements)


@given(KEYS, SOME_VALUES, LABELS)
def test_opposites(key: str, values: tuple[str, ...], labels: dict[str, str]) -> None:
    """NotIn is the opposite of In, and DoesNotExist of Exists, for any labels."""
    for one, other in ((Operator.IN, Operator.NOT_IN), (Operator.EXISTS, Operator.DOES_NOT_EXIST)):
        given_values = values if one is Operator.IN else ()
        ours, theirs = selectors.requirement(key, one, given_values), selectors.requirement(key, other, given_values)
        assert ours.matches(labels) is not theirs.matches(labels)


@given(LABELS)
def test_labels_match_the_selector_made_from_them(labels: dict[str, str]) -> None:
    """Any labels match the selector that asks for exactly them."""
    assert selectors.from_labels(labels).matches(labels)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """Reading a selector ends in a selector or in an InvalidError, never in anything else."""
    try:
        selector = selectors.parse(text)
    except InvalidError:
        return
    assert selectors.parse(str(selector)) == selector


@given(st.text(alphabet="ab.", min_size=1), st.text(), st.booleans())
def test_printing_fields_loses_nothing(name: str, value: str, negated: bool) -> None:
    """A field term that is printed and read again is the same term, whatever its value."""
    term = FieldTerm(name, value, negated=negated)
    assert selectors.parse_fields(str(term)) == (term,)


def test_selectors_of_many_entries_are_invalid() -> None:
    """Whatever they are in: they would be compiled and compared again and again."""

    def wanted(values: int) -> LabelSelector:
        expression = LabelSelectorRequirement(key="a", operator="In", values=tuple(f"v{n}" for n in range(values)))
        return LabelSelector(match_labels={"b": "c"}, match_expressions=(expression,))

    found = selectors.compile(wanted(selectors.MAX_ENTRIES - 2))
    assert found.matches({"a": "v7", "b": "c"})
    assert not found.matches({"a": "w", "b": "c"})
    with pytest.raises(InvalidError, match=r"^has 2,001 labels, expressions and values; write at most 2,000$"):
        selectors.compile(wanted(selectors.MAX_ENTRIES - 1))
