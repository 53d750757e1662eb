"""Import directions: the contracts of `.importlinter` hold, and catch what they are for; third-party modules too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from copy import deepcopy
from itertools import product
from pathlib import Path

import grimp
import pytest
from importlinter import Contract, configuration
from importlinter.application.use_cases import read_user_options
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract

ROOT = Path(__file__).parents[2]
CONTRACT_TYPES: dict[str, type[Contract]] = {
    "forbidden": ForbiddenContract,
    "independence": IndependenceContract,
    "layers": LayersContract,
    "protected": ProtectedContract,
}

ALLOWED: dict[str, set[str]] = {
    "api": {"jsonpatch", "jsonpointer", "msgspec", "numpy"},
    "snapshot": {"msgspec", "numpy"},
    "placement": {"msgspec", "numpy"},
    "ranking": {"msgspec", "numpy"},
    "subsets": {"msgspec"},
    "kube": {"aiohttp", "msgspec", "uvloop", "yaml"},
    "scheduler": {"msgspec", "numpy", "prometheus_client"},
    "scaledown": {"aiohttp", "msgspec", "numpy", "prometheus_client"},
    "unitedtopology": {"msgspec", "prometheus_client"},
    "cloneset": {"msgspec", "numpy", "prometheus_client"},
    "defaulting": {"msgspec", "prometheus_client"},
    "admission": {"aiohttp", "cryptography", "msgspec", "prometheus_client"},
    "inspection": {"msgspec", "numpy", "yaml", "zstandard"},
    "dashboard": {"aiohttp", "numpy", "prometheus_client"},
    "app": {"aiohttp", "opentelemetry", "prometheus_client"},
    "install": {"jsonpatch", "yaml"},
    "doctor": {"cryptography", "yaml"},
    "cli": {"click", "rich", "yaml"},
    "testing": {"msgspec", "numpy"},
    "__main__": set(),
}
"""The third-party modules that each package may import: the design's table, each with its reason in ARCHITECTURE.md."""
ALLOWED_IN_LAB = {
    "aiohttp",
    "click",
    "cryptography",
    "jsonpatch",
    "jsonschema_rs",
    "msgspec",
    "numpy",
    "prometheus_client",
    "rich",
    "trustme",
    "yaml",
}
"""The same for the lab as a whole."""

FEATURES = ("scaledown", "unitedtopology", "cloneset", "scheduler", "defaulting")
TOPS = ("cli", "testing")
PURE = ("placement", "ranking", "subsets")
PRODUCT = tuple(sorted(set(ALLOWED) - {"__main__"}))
USED_BY_LAB = {"api", "kube", "ranking", "snapshot"}
LAYERS, LAB = "Layers of the product", "The lab imports api, kube, ranking and the snapshot that ranking takes"
KUBE, NOTHING_IMPORTS_TOPS = "kube imports api and nothing else of the product", "Nothing imports cli or testing"

OFFENDERS = {
    "trimtab/kube": ["import trimtab.ranking.plan"],
    "trimtab/cloneset": ["from trimtab.scheduler import queue"],
    "trimtab/placement": ["import trimtab.subsets.allocation"],
    "trimtab/app": ["import trimtab_lab", "import trimtab.cli"],
    "trimtab_lab": ["from trimtab.install import manifests"],
    "trimtab_lab/apiserver/storage": ["from trimtab_lab.apiserver.kinds import registry"],
}
"""Import statements that together break every contract, by the folder that gets them."""

Direction = tuple[Collection[str], Collection[str], str]

FORBIDDEN: Sequence[Direction] = (
    (["trimtab_lab"], set(PRODUCT) - USED_BY_LAB, LAB),
    (["trimtab_lab"], [*TOPS, "trimtab_lab.testing"], NOTHING_IMPORTS_TOPS),
    (["trimtab_lab.testing.labs"], set(PRODUCT) - USED_BY_LAB - {"testing"}, LAB),
    (PRODUCT, ["trimtab_lab"], "The product does not import the lab"),
    (["kube"], set(PRODUCT) - {"api", "kube"}, KUBE),
    (FEATURES, FEATURES, "Features do not import one another"),
    (PURE, PURE, "The pure packages do not import one another"),
    ([*PURE, "snapshot", "api"], ["kube", "admission", *FEATURES, "inspection", "dashboard", "app", "install"], LAYERS),
    (["snapshot", "api"], PURE, LAYERS),
    (["api"], ["snapshot"], LAYERS),
    (["admission"], FEATURES, LAYERS),
    ([*FEATURES, "admission"], ["inspection", "dashboard", "app", "install"], LAYERS),
    (["inspection"], ["dashboard", "app", "install"], LAYERS),
    (["dashboard"], ["app", "install"], LAYERS),
    (
        [*PURE, "snapshot", "api", "admission", *FEATURES, "inspection", "dashboard", "app", "install"],
        ["doctor"],
        LAYERS,
    ),
    (PRODUCT, TOPS, NOTHING_IMPORTS_TOPS),
)
"""Every direction that ARCHITECTURE.md forbids, with the contract that catches it: each of the first importing each of
the second, but for itself."""


def forbidden_imports() -> Iterator[tuple[str, str, str]]:
    """Importer, imported and contract, one by one."""
    for importers, imported, contract in FORBIDDEN:
        for one, other in product(sorted(importers), sorted(imported)):
            if one != other:
                yield module(one), module(other), contract


def module(name: str) -> str:
    """The full name of a package."""
    return name if name.startswith("trimtab_lab") else f"trimtab.{name}"


def contracts() -> dict[str, Contract]:
    """The contracts of `.importlinter`, by name."""
    configuration.configure()
    options = read_user_options(config_filename=str(ROOT / ".importlinter"))
    return {
        each["name"]: CONTRACT_TYPES[each["type"]](each["name"], options.session_options, each)
        for each in options.contracts_options
    }


CONTRACTS = contracts()


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """All imports of the product and the lab, third-party modules included."""
    return grimp.build_graph("trimtab", "trimtab_lab", include_external_packages=True, cache_dir=None)


def is_kept(contract: Contract, graph: grimp.ImportGraph) -> bool:
    """Whether a contract holds; a check may change the graph that it is given."""
    return contract.check(deepcopy(graph), verbose=False).kept


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_contract_is_kept(name: str, graph: grimp.ImportGraph) -> None:
    """The source tree as it is breaks no contract."""
    assert is_kept(CONTRACTS[name], graph)


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    list(forbidden_imports()),
    ids=lambda value: value.removeprefix("trimtab.").replace(" ", "-"),
)
def test_a_forbidden_import_breaks_its_contract(
    importer: str, imported: str, contract: str, graph: grimp.ImportGraph
) -> None:
    """Each forbidden direction, tried alone on a copy of the import graph."""
    changed = deepcopy(graph)
    changed.add_import(importer=importer, imported=imported)
    assert not is_kept(CONTRACTS[contract], changed)


def test_forbidden_imports_in_a_copy_of_the_source_break_every_contract(tmp_path: Path) -> None:
    """The command that `make lint` runs reads real import statements, those inside functions included."""
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for package, statements in OFFENDERS.items():
        (source / package / "probe.py").write_text(
            "def probe() -> None:\n" + "".join(f"    {each}\n" for each in statements)
        )
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    broken = [name for name in CONTRACTS if f"{name} BROKEN" in run.stdout]
    assert (run.returncode, broken) == (1, list(CONTRACTS)), run.stdout + run.stderr


@pytest.mark.parametrize(("name", "allowed"), [(LAB, USED_BY_LAB), (KUBE, {"api", "kube"})])
def test_a_list_of_forbidden_packages_is_complete(name: str, allowed: set[str]) -> None:
    """A new package is forbidden to the lab and to kube until it is allowed."""
    listed = CONTRACTS[name].contract_options["forbidden_modules"]
    assert {module.removeprefix("trimtab.") for module in listed} == set(PRODUCT) - allowed


def test_every_package_has_its_list() -> None:
    """A new package must say which third-party modules it may import."""
    source = ROOT / "src/trimtab"
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    modules = {path.stem for path in source.glob("*.py")} - {"__init__"}
    assert packages | modules == set(ALLOWED)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_package_imports_only_what_its_list_allows(package: str, graph: grimp.ImportGraph) -> None:
    """Third-party modules outside the list are refused, whatever they are."""
    assert third_party(graph, f"trimtab.{package}") <= ALLOWED[package]


def test_the_lab_imports_only_what_its_list_allows(graph: grimp.ImportGraph) -> None:
    """The lab is a distribution of its own, with dependencies of its own."""
    assert third_party(graph, "trimtab_lab") <= ALLOWED_IN_LAB


def third_party(graph: grimp.ImportGraph, package: str) -> set[str]:
    """The third-party modules that a package imports."""
    modules = {m for m in graph.modules if m == package or m.startswith(f"{package}.")}
    targets = {target for module in modules for target in graph.find_modules_directly_imported_by(module)}
    own = {"trimtab", "trimtab_lab"}
    return {target.partition(".")[0] for target in targets} - own - set(sys.stdlib_module_names)
