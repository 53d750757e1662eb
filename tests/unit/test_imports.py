"""Import directions: what `.importlinter` cannot say, that nothing but the listed third-party modules is imported."""

from __future__ import annotations

import sys
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]

ALLOWED: dict[str, set[str]] = {
    "api": {"jsonpatch", "jsonpointer", "msgspec"},
    "snapshot": {"msgspec", "numpy"},
    "placement": {"msgspec", "numpy"},
    "ranking": {"msgspec", "numpy"},
    "subsets": {"msgspec"},
    "kube": {"aiohttp", "msgspec", "yaml"},
    "scheduler": {"msgspec", "numpy", "prometheus_client"},
    "scaledown": {"aiohttp", "msgspec", "numpy", "prometheus_client"},
    "unitedtopology": {"msgspec", "prometheus_client"},
    "cloneset": {"msgspec", "numpy", "prometheus_client"},
    "admission": {"aiohttp", "cryptography", "msgspec", "prometheus_client"},
    "app": {"aiohttp", "prometheus_client"},
    "install": {"yaml"},
    "cli": {"click", "rich", "yaml"},
    "testing": {"msgspec", "numpy"},
    "__main__": set(),
}
"""Which third-party modules each package may import: the design's table, each with its reason in ARCHITECTURE.md."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """All imports of the package, third-party modules included."""
    return grimp.build_graph("trimtab", include_external_packages=True, cache_dir=None)


def test_the_layers_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every contract in .importlinter is kept."""
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == 0


def test_every_package_has_its_list() -> None:
    """A new package must say which third-party modules it may import."""
    source = ROOT / "src/trimtab"
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    modules = {path.stem for path in source.glob("*.py")} - {"__init__"}
    assert packages | modules == set(ALLOWED)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_package_imports_only_what_its_list_allows(package: str, graph: grimp.ImportGraph) -> None:
    """Third-party modules outside the list are refused, whatever they are."""
    prefix = f"trimtab.{package}"
    modules = {m for m in graph.modules if m == prefix or m.startswith(f"{prefix}.")}
    targets = {target for module in modules for target in graph.find_modules_directly_imported_by(module)}
    foreign = {target.partition(".")[0] for target in targets} - {"trimtab"} - set(sys.stdlib_module_names)
    assert foreign <= ALLOWED[package]
