"""The configuration file: what it may say, and what is said to whoever wrote it wrongly."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tools import configuration as page
from trimtab.api import configuration
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError

TWO = [{"name": "Balance"}, {"name": "Taints"}]


def policies(*trees: dict[str, Any]) -> dict[str, Any]:
    """A configuration with these default policies."""
    return {"scaleDown": {"defaultPolicies": list(trees)}}


def test_an_empty_file_has_a_meaning() -> None:
    """Every field has a default, and defaults are valid."""
    assert configuration.read({}) == TrimtabConfiguration()


def test_every_value_is_read() -> None:
    """Nested objects, lists and numbers arrive as they were written."""
    read = configuration.read(
        {
            "components": ["scheduler", "webhooks"],
            "namespaces": ["shop"],
            "featureGates": {"CloneSetPodCost": True},
            "scaleDown": {"budgetSeconds": 4, "defaultPolicies": [{"name": "level", "delivery": "Continuous"}]},
        }
    )
    assert read.components == ("scheduler", "webhooks")
    assert read.namespaces == ("shop",)
    assert (read.gate("CloneSetPodCost"), read.gate("PodWebhook")) == (True, True)
    assert read.scale_down.budget_seconds == 4.0
    assert [policy.delivery for policy in read.scale_down.default_policies] == ["Continuous"]


def test_a_default_policy_observes_unless_it_says_otherwise() -> None:
    """It applies to workloads whose owners have asked for nothing."""
    read = configuration.read(policies({"name": "a"}, {"name": "b", "mode": "Enforce"}))
    assert [policy.mode for policy in read.scale_down.default_policies] == ["Observe", "Enforce"]


@pytest.mark.parametrize(
    ("tree", "path", "words"),
    [
        pytest.param([], "", "write an object", id="a list is no configuration"),
        pytest.param({"apiVersion": "v9"}, "apiVersion", "write: trimtab.dev/v1alpha1", id="another version"),
        pytest.param({"component": []}, "component", 'did you mean "components"', id="a misspelt field"),
        pytest.param({"zebra": 1}, "zebra", "write one of apiVersion, kind", id="a field that resembles none"),
        pytest.param({"components": ["shop"]}, "components[0]", "a list of scheduler, webhooks", id="no component"),
        pytest.param({"components": []}, "components", "a list of scheduler", id="nothing to run"),
        pytest.param({"components": 2 * ["scheduler"]}, "components", "listed twice", id="a component twice"),
        pytest.param({"namespace": "Trim_Tab"}, "namespace", "not a valid namespace name", id="a bad namespace"),
        pytest.param(
            {"namespaces": ["shop", ""]}, "namespaces[1]", "not a valid namespace name", id="a nameless namespace"
        ),
        pytest.param(
            {"featureGates": {"PodWebhok": True}}, "featureGates[PodWebhok]", 'did you mean "PodWebhook"', id="no gate"
        ),
        pytest.param({"featureGates": {"PodWebhook": "on"}}, "featureGates[PodWebhook]", "true or false", id="a word"),
        pytest.param({"scheduler": 4}, "scheduler", "the path of a file", id="a number for a scheduler"),
        pytest.param(
            {"scaleDown": {"enabeld": True}}, "scaleDown.enabeld", 'did you mean "enabled"', id="a misspelt switch"
        ),
        pytest.param(
            {"scaleDown": {"budgetSeconds": 40}}, "scaleDown.budgetSeconds", "from 0.1 to 25", id="a budget too large"
        ),
        pytest.param(
            {"scaleDown": {"probeNetworks": ["10.0.0.0/8", "10.0.0.1/8"]}},
            "scaleDown.probeNetworks[1]",
            '"10.0.0.1/8" is not a network; write it as 10.244.0.0/16',
            id="an address instead of a network",
        ),
        pytest.param(
            {"scaleDown": {"settleMilliseconds": 2000}},
            "scaleDown.settleMilliseconds",
            "write less than budgetSeconds",
            id="a settle time that is all of the budget",
        ),
        pytest.param(
            {"scaleDown": {"settleMilliseconds": 800, "budgetSeconds": 1}},
            "scaleDown.settleMilliseconds",
            "write less than budgetSeconds · 1000 - 200",
            id="a settle time that leaves nothing but the answer",
        ),
        pytest.param(
            policies({"budgetMilliseconds": 500}),
            "scaleDown.defaultPolicies[0].budgetMilliseconds",
            "500 leaves no time for writing costs: 200 are reserved for the answer and 300 for controllers",
            id="a policy's budget that is all of the settle time and the answer",
        ),
        pytest.param(
            policies({"strategies": [{"name": "Balance", "wieght": 1}]}),
            "scaleDown.defaultPolicies[0].strategies[0].wieght",
            'did you mean "weight"',
            id="a misspelt field of a strategy",
        ),
        pytest.param(
            policies({"strategies": [{"name": "Balance", "weight": -1}]}),
            "scaleDown.defaultPolicies[0].strategies[0].weight",
            ">= 1",
            id="a negative weight",
        ),
        pytest.param(
            policies({"strategies": TWO}),
            "scaleDown.defaultPolicies[0].strategies[0].threshold",
            "is required with several",
            id="several strategies without thresholds",
        ),
        pytest.param(
            policies({"mode": "enforce"}), "scaleDown.defaultPolicies[0].mode", "Observe or Enforce", id="no mode"
        ),
        pytest.param(policies({}, {}), "scaleDown.defaultPolicies[1].name", "used twice", id="two of one name"),
        pytest.param(
            policies({"namespaceSelector": {"matchLabels": {"tier": "&"}}}),
            "scaleDown.defaultPolicies[0].namespaceSelector.matchLabels[tier]",
            "not a label value",
            id="a selector that cannot be",
        ),
        pytest.param(
            {"webhooks": {"certificates": {"source": "Files", "certificateFile": "a"}}},
            "webhooks.certificates.keyFile",
            "write the path of a PEM file",
            id="a certificate without its key",
        ),
        pytest.param(
            {"webhooks": {"certificates": {"keyFile": "b"}}},
            "webhooks.certificates.keyFile",
            "has no effect",
            id="a file that nobody would read",
        ),
        pytest.param({"webhooks": {"url": "http://a"}}, "webhooks.url", "https://HOST:PORT", id="no TLS"),
        pytest.param({"webhooks": {"port": 70000}}, "webhooks.port", "1 to 65535", id="no port"),
        pytest.param(
            {"serving": {"port": "x"}}, "serving.port", "-1 to disable both endpoints", id="a word for a port"
        ),
        pytest.param({"logs": {"level": "loud"}}, "logs.level", "debug, info, warning", id="a level that is not"),
        pytest.param(
            {"leaderElection": {"renewSeconds": 15}}, "leaderElection", "leaseSeconds > renewSeconds", id="two leaders"
        ),
    ],
)
def test_a_mistake_names_the_field_and_what_to_write(tree: Any, path: str, words: str) -> None:
    """Nobody has to look anything up."""
    with pytest.raises(InvalidError) as raised:
        configuration.read(tree)
    assert raised.value.path == path
    assert words in raised.value.reason


def test_every_field_says_what_to_write() -> None:
    """Errors and the documentation are made from it."""
    assert [row for row in page.tables().splitlines() if row.startswith("| `") and row.endswith("|  |")] == []


def test_the_page_is_current() -> None:
    """`make generate` writes its tables."""
    text = page.PAGE.read_text()
    assert page.page(text) == text


def test_the_page_shows_a_configuration_that_is_valid() -> None:
    """What people copy first must work."""
    blocks = re.findall(r"```yaml[^\n]*\n(.*?)```", page.PAGE.read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        configuration.read(yaml.safe_load(block))
