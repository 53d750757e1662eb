"""The mode of default policies in an installation: setting it, and notes on how to enforce them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trimtab.api import configuration
from trimtab.api.annotations import OPT_OUT
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import Mode

MODES: Final[Mapping[str, Mode]] = {"observe": "Observe", "enforce": "Enforce"}
"""The modes as the command line and the label of a namespace spell them."""


def with_mode(tree: Mapping[str, Any], mode: Mode) -> JSON:
    """A configuration with this mode in every default policy. Raises InvalidError if it is invalid or has none."""
    if not configuration.read(tree).scale_down.default_policies:
        reason = "is empty, so there is no policy whose mode could be set; write [{name: level}], or omit --mode"
        raise InvalidError("scaleDown.defaultPolicies", reason)
    scale_down = tree["scaleDown"]
    policies = [{**policy, "mode": mode} for policy in scale_down["defaultPolicies"]]
    return {**tree, "scaleDown": {**scale_down, "defaultPolicies": policies}}


def notes(installed: TrimtabConfiguration, *, is_local: bool = False) -> Iterator[str]:
    """How to enforce the default policies that observe; none where there are no such policies.

    A local installation prints no configuration: its processes read a file of their own.
    """
    settings = installed.scale_down
    observing = [f'"{policy.name}"' for policy in settings.default_policies if policy.mode == "Observe"]
    if not observing or not settings.enabled:
        return
    yield f"default policies in mode Observe: {', '.join(observing)}. They plan and report, and write nothing to pods"
    if not is_local:
        yield "to enforce everywhere: the same command with --mode enforce"
    yield f"to enforce in one namespace: kubectl label namespace NAME {OPT_OUT}=enforce"
    yield "to enforce by one field: mode: Enforce of a ScaleDownPolicy, or of the default policy in the configuration"
