"""The settings of a strategy: errors that name the setting, and say what to write."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from msgspec import Meta

from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.ranking.strategies import STRATEGIES
from trimtab.ranking.strategies.settings import NoSettings, check_key, descriptions, read_settings


class Knobs(Model):
    """Two settings with descriptions, and one without."""

    first: Annotated[int, Meta(description="a whole number")] = 1
    second_one: Annotated[tuple[int, ...], Meta(description="whole numbers in a list")] = ()
    plain: int = 0


def test_settings_have_their_defaults() -> None:
    """And the names of a policy."""
    found = read_settings(Knobs, {"secondOne": [1, 2]}, "Knobs")
    assert (found.first, found.second_one, found.plain) == (1, (1, 2), 0)
    assert descriptions(Knobs) == {"first": "a whole number", "secondOne": "whole numbers in a list", "plain": ""}
    assert descriptions(NoSettings) == {}


@pytest.mark.parametrize(
    ("args", "path", "ending"),
    [
        pytest.param({"first": "x"}, "args.first", "; write a whole number", id="the first one"),
        pytest.param({"secondOne": 3}, "args.secondOne", "; write whole numbers in a list", id="the second one"),
        pytest.param(
            {"secondOne": [1, "x"]}, "args.secondOne[1]", "; write whole numbers in a list", id="a part of it"
        ),
        pytest.param({"plain": "x"}, "args.plain", "", id="one without a description"),
        pytest.param(
            {"third": 1}, "args.third", "is not a setting of Knobs; write one of first, secondOne, plain", id="unknown"
        ),
    ],
)
def test_an_error_names_the_setting_and_what_to_write(args: dict[str, Any], path: str, ending: str) -> None:
    """As the documentation describes it."""
    with pytest.raises(InvalidError) as caught:
        read_settings(Knobs, args, "Knobs")
    assert caught.value.path == path
    assert caught.value.reason.endswith(ending)
    assert ("write" in caught.value.reason) is bool(ending)


def test_a_strategy_without_settings_takes_none() -> None:
    """Nor anything that is no mapping."""
    assert isinstance(read_settings(NoSettings, {}, "Balance"), NoSettings)
    with pytest.raises(InvalidError, match="is not a setting of Balance, which has none"):
        read_settings(NoSettings, {"x": 1}, "Balance")
    with pytest.raises(InvalidError, match="must be settings by name"):
        read_settings(NoSettings, [], "Balance")  # type: ignore[arg-type]


def test_a_key_must_be_one() -> None:
    """Of a label or annotation."""
    check_key("topologyKey", "topology.kubernetes.io/zone", "zone")
    with pytest.raises(InvalidError) as caught:
        check_key("topologyKey", "not a key", "topology.kubernetes.io/zone")
    assert (caught.value.path, caught.value.reason) == (
        "args.topologyKey",
        '"not a key" is not a key; write one such as topology.kubernetes.io/zone',
    )


@pytest.mark.parametrize("name", ["AntiAffinity", "PreferNoSchedule", "Scheduled", "Youngest"])
def test_a_setting_of_a_strategy_that_has_none_is_refused(name: str) -> None:
    """It would have no effect, which its author cannot know."""
    with pytest.raises(InvalidError, match=f"is not a setting of {name}, which has none") as caught:
        STRATEGIES[name]({"weight": 2})
    assert caught.value.path == "args.weight"
