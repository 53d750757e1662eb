"""The registry, and what strategies say to settings that they cannot use."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from trimtab.api.errors import InvalidError
from trimtab.ranking.strategies import ENTRY_POINTS, STRATEGIES, StrategyError, registry
from trimtab.ranking.strategies.balance import Balance


def point(name: str, value: str) -> EntryPoint:
    """An entry point as an installed package would offer it."""
    return EntryPoint(name=name, value=value, group=ENTRY_POINTS)


def test_every_strategy_knows_the_name_it_is_registered_by() -> None:
    """An explanation names the strategy as the policy does."""
    assert {factory({}).name for factory in STRATEGIES.values()} == set(STRATEGIES)


def test_an_entry_point_adds_a_strategy() -> None:
    """Trimtab's own stay; nothing is added to the table itself."""
    found = registry([point("Mine", "trimtab.ranking.strategies.balance:Balance.configured")])
    assert set(found) == {*STRATEGIES, "Mine"}
    assert isinstance(found["Mine"]({}), Balance)
    assert "Mine" not in STRATEGIES


def test_without_entry_points_there_are_trimtabs_own() -> None:
    """Trimtab registers nothing by entry point itself."""
    assert registry([]) == STRATEGIES


@pytest.mark.parametrize(
    ("points", "says"),
    [
        pytest.param(
            [point("Balance", "mine:balance")],
            'strategy "Balance" is there twice: by Trimtab itself and by mine:balance; rename one of them',
            id="a name of Trimtab's own",
        ),
        pytest.param(
            [point("Mine", "json:loads"), point("Mine", "json:dumps")],
            'strategy "Mine" is there twice: by json:loads and by json:dumps; rename one of them',
            id="two packages",
        ),
        pytest.param(
            [point("Mine", "no_such_module:x")],
            'strategy "Mine" cannot be loaded from no_such_module:x: ModuleNotFoundError',
            id="a module that is not there",
        ),
        pytest.param(
            [point("Mine", "json:no_such_name")],
            'strategy "Mine" cannot be loaded from json:no_such_name: AttributeError',
            id="a name that is not there",
        ),
        pytest.param(
            [point("Mine", "json:__name__")],
            'strategy "Mine" is no factory: json:__name__ is a str',
            id="something that makes nothing",
        ),
    ],
)
def test_entry_points_that_cannot_be_used(points: list[EntryPoint], says: str) -> None:
    """The error names the strategy and where it comes from; of a duplicate, both."""
    with pytest.raises(StrategyError, match=f"^{re.escape(says)}"):
        registry(points)


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        pytest.param(
            "Balance",
            {"topologykey": "zone"},
            "args.topologykey: is not a setting of Balance; write one of topologyKey",
            id="a setting that does not exist",
        ),
        pytest.param(
            "Youngest",
            {"unitSeconds": 1},
            "args.unitSeconds: is not a setting of Youngest, which has none",
            id="a setting where there are none",
        ),
        pytest.param(
            "Balance",
            {"topologyKey": 3},
            "args.topologyKey: 3: expected `str`, got `int`; write the node label whose values are the domains",
            id="a key that is no text",
        ),
        pytest.param(
            "Balance",
            {"topologyKey": "a zone"},
            'args.topologyKey: "a zone" is not a key; write one such as topology.kubernetes.io/zone',
            id="a key that no label can have",
        ),
        pytest.param(
            "Balance", {"topologyKey": ""}, 'args.topologyKey: "" is not a key; write one such as', id="an empty key"
        ),
        pytest.param("Taints", {"effects": []}, "args.effects: expected `array` of length >= 1", id="no effects"),
        pytest.param(
            "Taints",
            {"effects": ["NoSchedule", "Never"]},
            "args.effects[1]: \"Never\": Invalid enum value 'Never'; write the effects that count: NoSchedule,",
            id="an effect that does not exist",
        ),
        pytest.param("Oldest", {"unitSeconds": 0}, "args.unitSeconds: 0: expected `int` >= 1; write how", id="no time"),
        pytest.param("Oldest", {"unitSeconds": 1.5}, "args.unitSeconds: 1.5: expected `int`", id="half a second"),
        pytest.param(
            "Idle", {"busyAt": 0}, "args.busyAt: 0: expected `float` > 0.0; write the usage", id="always busy"
        ),
        pytest.param("Idle", {"busyAt": float("nan")}, "args.busyAt: ", id="not a number"),
        pytest.param("Idle", {"busyAt": float("inf")}, "args.busyAt: ", id="never busy"),
        pytest.param("Idle", {"busyAt": True}, "args.busyAt: expected `float`, got `bool`", id="a truth"),
        pytest.param("Stated", {"order": "Any"}, 'args.order: "Any": Invalid enum value', id="an unknown order"),
        pytest.param("Stated", {"default": "0"}, 'args.default: "0": expected `float | null`', id="a text"),
        pytest.param("Stated", {"annotation": "/x"}, 'args.annotation: "/x" is not a key; write one', id="no key"),
        pytest.param("Balance", ["zone"], "args: must be settings by name", id="a list"),
        pytest.param("Balance", None, "args: must be settings by name", id="nothing at all"),
        pytest.param("Balance", {1: 2}, "args.1: is not a setting of Balance", id="a number for a name"),
    ],
)
def test_settings_that_cannot_be_used(name: str, args: Any, says: str) -> None:
    """The error names the setting, and says what to write instead."""
    with pytest.raises(InvalidError, match=f"^{re.escape(says)}"):
        STRATEGIES[name](args)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_null_is_an_absent_setting(name: str) -> None:
    """As everywhere in Kubernetes."""
    plain = STRATEGIES[name]({})
    settings: Any = getattr(plain, "settings", None)
    fields = [] if settings is None else list(type(settings).__struct_encode_fields__)
    assert STRATEGIES[name](dict.fromkeys(fields)) == plain
