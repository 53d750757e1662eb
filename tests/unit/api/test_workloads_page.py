"""The page on the configuration shows how workloads of other projects are named."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from trimtab.api import configuration

PAGE = (Path(__file__).parents[3] / "docs/configuration.md").read_text(encoding="utf-8")


def test_the_configuration_that_is_shown_names_rollouts() -> None:
    """As it stands there."""
    section = PAGE.partition("## Workloads of other projects")[2]
    (text,) = re.findall(r"```yaml\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    read = configuration.read(yaml.safe_load(text))
    assert [each.api_version for each in read.workloads] == ["argoproj.io/v1alpha1"]
