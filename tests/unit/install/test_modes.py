"""The mode of default policies in an installation: observe unless enforcing is asked for, and how to ask for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.api import configuration
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.install import manifests, modes
from trimtab.install.options import DEFAULT_CONFIGURATION, Options

INSTALL_PAGE = (Path(__file__).parents[3] / "docs" / "install.md").read_text()


def tree(*policies: JSON, **more: Any) -> JSON:
    """A configuration with these default policies."""
    return {"scaleDown": {"defaultPolicies": list(policies), **more}}


def notes(*policies: JSON, is_local: bool = False, **more: Any) -> list[str]:
    """The notes about these default policies."""
    return list(modes.notes(configuration.read(tree(*policies, **more)), is_local=is_local))


def test_an_installation_observes_unless_it_is_told_to_enforce() -> None:
    """And the field that says so is there to be changed."""
    (policy,) = DEFAULT_CONFIGURATION["scaleDown"]["defaultPolicies"]
    assert policy["mode"] == "Observe"


@pytest.mark.parametrize("mode", modes.MODES.values())
def test_the_mode_is_set_in_every_default_policy(mode: Any) -> None:
    """Whatever the file says; everything else in it stays."""
    before = {"namespaces": ["shop"], **tree({"name": "a"}, {"name": "b", "mode": "Enforce"}, budgetSeconds=4)}
    after = modes.with_mode(before, mode)
    read = configuration.read(after)
    assert [(policy.name, policy.mode) for policy in read.scale_down.default_policies] == [("a", mode), ("b", mode)]
    assert (read.namespaces, read.scale_down.budget_seconds) == (("shop",), 4)
    assert before["scaleDown"]["defaultPolicies"][0] == {"name": "a"}, "the argument was changed"


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        pytest.param({}, "scaleDown.defaultPolicies", id="no default policy"),
        pytest.param({"scaleDown": {"defaultPolicies": [3]}}, r"scaleDown.defaultPolicies\[0\]", id="an invalid one"),
    ],
)
def test_a_mode_that_would_have_no_effect_is_refused(wrong: JSON, path: str) -> None:
    """An administrator who asked for it would believe that it is set."""
    with pytest.raises(InvalidError, match=path):
        modes.with_mode(wrong, "Enforce")


def test_nothing_but_the_configuration_depends_on_the_mode() -> None:
    """Permissions and webhooks are the same, so that one field, or a label, switches."""
    observed, enforced = (
        Options(configuration=modes.with_mode(DEFAULT_CONFIGURATION, mode)) for mode in modes.MODES.values()
    )
    differing = [
        one["kind"]
        for one, other in zip(manifests.everything(observed), manifests.everything(enforced), strict=True)
        if one != other
    ]
    assert differing == ["ConfigMap", *3 * ["Deployment"]]  # Deployments have the configuration's digest


def test_the_notes_name_the_three_ways_to_enforce() -> None:
    """The way of the command line is not there if no configuration is printed."""
    first, *ways = notes({"name": "level"}, {"name": "quick", "mode": "Enforce"}, {"name": "slow", "mode": "Observe"})
    assert 'Observe: "level", "slow".' in first
    assert [way.split(":")[0] for way in ways] == [
        "to enforce everywhere",
        "to enforce in one namespace",
        "to enforce by one field",
    ]
    assert notes({"name": "level"}, is_local=True)[1:] == ways[1:]


@pytest.mark.parametrize(
    ("policies", "more"),
    [
        pytest.param([], {}, id="no default policy"),
        pytest.param([{"mode": "Enforce"}], {}, id="it enforces"),
        pytest.param([{}], {"enabled": False}, id="scale-downs are off"),
    ],
)
def test_there_are_no_notes_where_nothing_is_observed(policies: list[JSON], more: JSON) -> None:
    """There is nothing to switch."""
    assert notes(*policies, **more) == []


def test_the_page_shows_each_way() -> None:
    """With the option, the label and the field as they are written in the notes."""
    written = "\n".join(notes({"name": "level"}))
    for way in ("--mode enforce", "trimtab.dev/scale-down=enforce", "mode: Enforce"):
        assert way in written
        assert way in INSTALL_PAGE
