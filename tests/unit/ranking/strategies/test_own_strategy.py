"""The documentation's example of a strategy of one's own, taken from the page, installed, and used."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.ranking.groups import aged, view_of
from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.ranking.combination import combine
from trimtab.ranking.strategies import ENTRY_POINTS, STRATEGIES, registry
from trimtab.ranking.strategies.signals import signal_of
from trimtab.scaledown.sources import SourceError
from trimtab.scaledown.sources.registry import make_sources
from trimtab.testing.builders import cluster

PAGE = Path(__file__).parents[4] / "docs/strategies.md"
BLOCK = re.compile(r"^```\w+\n# (?P<name>[\w.]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    """The files that the page shows, by the name in their first line."""
    return {match["name"]: match["text"] for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}


@pytest.fixture
def installed(files: dict[str, str], tmp_path: Path) -> Iterator[None]:
    """The example as an installed package: its module, and the entry points that its project file declares."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("canary.py", "test_canary.py"):
            (tmp_path / name).write_text(files[name], encoding="utf-8")
        points = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"][ENTRY_POINTS]
        lines = [f"[{ENTRY_POINTS}]", *(f"{name} = {value}" for name, value in points.items())]
        record = tmp_path / "canary-1.0.dist-info"
        record.mkdir()
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: canary\nVersion: 1.0\n", encoding="utf-8")
        (record / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
        patch.syspath_prepend(tmp_path)
        yield
    for name in ("canary", "test_canary"):
        sys.modules.pop(name, None)


def test_the_page_shows_all_files(files: dict[str, str]) -> None:
    """What the other tests take from the page is there."""
    assert set(files) == {"canary.py", "pyproject.toml", "policy.yaml", "test_canary.py", "queues.py"}


async def test_the_examples_signal_is_sampled_and_ranks(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its strategy names the source, its source is made from the configuration, and the pods are ranked by it."""
    (tmp_path / "queues.py").write_text(files["queues.py"], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module: Any = importlib.import_module("queues")
    monkeypatch.delitem(sys.modules, "queues")
    made = make_sources({"Queues": {"address": "broker"}}, {"Queues": module.Queues})
    signal = signal_of(module.queue_length({}))
    assert signal is not None
    assert signal.source in made
    group = cluster("z1: a").with_pods(aged("old", 1).on("a"))
    found = await made["Queues"].sample(signal.query, group.pods())
    view = replace(view_of(group), signals={signal: {f"default/{name}": value for name, value in found.items()}})
    assert module.queue_length({}).rank(view.rows, view).tolist() == [0.0]
    with pytest.raises(SourceError, match="it has no address"):
        await module.Queues({}).sample("orders", group.pods())


@pytest.mark.usefixtures("installed")
def test_the_example_is_found_by_its_entry_point(files: dict[str, str]) -> None:
    """The page's policy, on a cluster with one canary: it goes first, and the strategies explain why."""
    known = registry()
    assert set(known) == {*STRATEGIES, "Canary"}
    policy = codec.convert(yaml.safe_load(files["policy.yaml"]), ScaleDownPolicy)
    group = cluster("z1: a").with_pods(aged("old", 1).on("a").labels(experimental="x"), aged("young", 2).on("a"))
    view = view_of(group, "old", "young")
    combined = combine(policy.spec.strategies, view, known)
    assert combined.total.tolist() == [1001, 2]
    assert [part.strategy for part in combined.explain(int(view.rows[0]))] == ["Canary", "Balance"]


@pytest.mark.usefixtures("installed")
def test_the_example_refuses_wrong_settings() -> None:
    """With the words of its own description."""
    with pytest.raises(InvalidError, match=r"^args\.label: 3: expected `str`, got `int`; write the label that"):
        registry()["Canary"]({"label": 3})


@pytest.mark.usefixtures("installed")
def test_the_examples_own_test_passes() -> None:
    """The page shows how to test a strategy, and that test is run."""
    importlib.import_module("test_canary").test_canaries_go_first()
