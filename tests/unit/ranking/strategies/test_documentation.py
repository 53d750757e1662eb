"""The page on strategies says what the strategies say of themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trimtab.ranking.strategies import STRATEGIES
from trimtab.ranking.strategies.settings import descriptions

PAGE = (Path(__file__).parents[4] / "docs/strategies.md").read_text(encoding="utf-8")
YES = {True: "yes", False: "no"}


def section(name: str) -> str:
    """What the page says under the strategy's heading."""
    found = re.search(rf"^### {name}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def table(name: str) -> list[str]:
    """The rows of settings that the page should have."""
    settings: Any = getattr(STRATEGIES[name]({}), "settings", None)
    if settings is None:
        return []
    fields = type(settings).__struct_fields__
    defaults = [msgspec.json.encode(getattr(settings, field)).decode() for field in fields]
    known = descriptions(type(settings)).items()
    return [f"| `{setting}` | `{default}` | {text} |" for (setting, text), default in zip(known, defaults, strict=True)]


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_strategy_has_its_place_in_the_overview(name: str) -> None:
    """With what it declares about recomputation."""
    made = STRATEGIES[name]({})
    ending = f"| {YES[made.recompute]} | {YES[made.one_at_a_time]} |"
    assert re.search(rf"^\| `{name}` \| .+ {re.escape(ending)}$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_strategy_has_its_section_with_all_settings(name: str) -> None:
    """Name, default, and the same words as in an error; and no setting that does not exist."""
    shown = [line for line in section(name).splitlines() if line.startswith("| `")]
    assert shown == table(name)
    assert section(name)
    assert bool(shown) != ("No settings." in section(name))
