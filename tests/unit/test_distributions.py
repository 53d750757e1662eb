"""The two distributions: the product alone, and the lab beside it.

The wheels are built without network, by the build backend itself. "Installed" means: a folder with the wheels'
contents beside links to the dependencies that the wheels declare, and nothing else of this environment on the path.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

import trimtab
import trimtab_lab

ROOT = Path(__file__).parents[2]
PRODUCT, LAB = ROOT, ROOT / "src/trimtab_lab"
SOURCE = ROOT / "src/trimtab"
OURS = {"trimtab", "trimtab-lab"}
COMPLETIONS = {"_trimtab": "zsh/site-functions/_trimtab"} | {
    "trimtab.bash": "bash-completion/completions/trimtab",
    "trimtab.fish": "fish/vendor_completions.d/trimtab.fish",
}
"""The completion scripts, and where shells look for them below `share`."""
BESIDE = {".gitignore", "LICENSE", "PKG-INFO", "pyproject.toml"}
"""What every sdist holds beside its sources."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Both wheels, built as a release builds them."""
    folder = tmp_path_factory.mktemp("wheels")
    return {
        project: Path(next(WheelBuilder(str(project)).build(directory=str(folder), versions=["standard"])))
        for project in (PRODUCT, LAB)
    }


@pytest.fixture(scope="module")
def product_alone(wheels: dict[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install trimtab` brings."""
    return install(tmp_path_factory.mktemp("product"), [wheels[PRODUCT]])


@pytest.fixture(scope="module")
def product_and_lab(wheels: dict[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install 'trimtab[lab]'` brings."""
    return install(tmp_path_factory.mktemp("both"), wheels.values())


def install(folder: Path, wheels: Iterable[Path]) -> Path:
    """Unpack wheels into a folder and link the dependencies that they declare."""
    for wheel in wheels:
        with ZipFile(wheel) as archive:
            archive.extractall(folder)  # noqa: S202 - wheels that were built a moment ago
    unpacked = metadata.distributions(path=[str(folder)])
    for distribution in dependencies(text for each in unpacked for text in each.requires or []):
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] != ".."}:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(top))))
    return folder


def dependencies(requirements: Iterable[str]) -> Iterable[metadata.Distribution]:
    """The distributions that requirements need, and what those need."""
    waiting, seen = list(requirements), set(OURS)
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name in seen or not (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(requirement.name)
        distribution = metadata.distribution(requirement.name)
        waiting += distribution.requires or []
        yield distribution


def run(environment: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with an installation alone: -S leaves out everything else that is installed."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-S", *arguments],
        cwd=environment,
        env={**variables, "PYTHONPATH": str(environment), "KUBECONFIG": str(environment / "none")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def files_in(wheel: Path) -> set[str]:
    """The files of a wheel, without its metadata."""
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name and ".data/" not in name}


def files_in_sdist(project: Path, folder: Path) -> set[str]:
    """The files of a source distribution, without the folder that holds them all."""
    sdist = next(SdistBuilder(str(project)).build(directory=str(folder), versions=["standard"]))
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def files_on_disk(package: Path) -> set[str]:
    """The files of a package in this tree, as a wheel names them."""
    return {
        str(path.relative_to(package.parent))
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and path.name not in {"pyproject.toml", "LICENSE"}
    }


def read_project(project: Path) -> dict[str, Any]:
    """The `[project]` table of a distribution."""
    table: dict[str, Any] = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    return table


@pytest.mark.parametrize(("project", "package"), [(PRODUCT, "trimtab"), (LAB, "trimtab_lab")], ids=["product", "lab"])
def test_a_wheel_holds_its_package_and_nothing_else(project: Path, package: str, wheels: dict[Path, Path]) -> None:
    """Data files included; no module of the other distribution."""
    assert files_in(wheels[project]) == files_on_disk(ROOT / "src" / package)


def test_the_products_wheel_installs_completions_where_shells_look(wheels: dict[Path, Path]) -> None:
    """Below the prefix that it is installed to; they are what `trimtab completion` prints."""
    from tools import completions

    with ZipFile(wheels[PRODUCT]) as archive:
        found = {name.partition(".data/data/share/")[2]: archive.read(name).decode() for name in archive.namelist()}
    found.pop("")
    assert found == {COMPLETIONS[name]: text for name, text in completions.files().items()}
    assert {path.name: path.read_text() for path in completions.FOLDER.iterdir()} == completions.files()


def test_the_products_sdist_holds_the_product_alone(tmp_path: Path) -> None:
    """With the texts of the root folder, and without the READMEs of the examples."""
    names = files_in_sdist(PRODUCT, tmp_path)
    assert {name for name in names if name.startswith("src/")} == {f"src/{name}" for name in files_on_disk(SOURCE)}
    assert {name for name in names if not name.startswith("src/")} == BESIDE | {
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "README.md",
        *(f"deploy/completions/{name}" for name in COMPLETIONS),
    }


def test_the_labs_sdist_holds_the_lab_alone(tmp_path: Path) -> None:
    """The folder is the package: a wheel built from the sdist has the same files."""
    names = files_in_sdist(LAB, tmp_path)
    assert {f"trimtab_lab/{name}" for name in names - BESIDE} == files_on_disk(LAB)
    assert names >= BESIDE


def test_the_product_alone_shows_its_help(product_alone: Path) -> None:
    """Without the lab and without jsonschema-rs."""
    shown = run(product_alone, "-m", "trimtab", "--help")
    assert (shown.returncode, "Examples:" in shown.stdout, shown.stderr) == (0, True, "")
    absent = "import importlib.util as u; print(u.find_spec('trimtab_lab'), u.find_spec('jsonschema_rs'))"
    assert run(product_alone, "-c", absent).stdout == "None None\n"


def test_the_product_alone_prints_its_manifests(product_alone: Path) -> None:
    """`trimtab install` needs nothing of the lab."""
    printed = run(product_alone, "-m", "trimtab", "install")
    assert (printed.returncode, "kind: Deployment" in printed.stdout) == (0, True), printed.stderr


@pytest.mark.parametrize("arguments", [(), ("--help",), ("up", "--port", "0"), ("run", "list")])
def test_without_the_lab_its_command_says_what_to_install(arguments: tuple[str, ...], product_alone: Path) -> None:
    """In one line, with exit status 1."""
    refused = run(product_alone, "-m", "trimtab", "lab", *arguments)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "Error: the lab is not installed; install it with: pip install 'trimtab[lab]'\n"


def test_with_the_lab_its_command_is_found(product_and_lab: Path) -> None:
    """By entry point; the stories are package data."""
    listed = run(product_and_lab, "-m", "trimtab", "lab", "run", "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    names = {path.stem for path in (LAB / "scenarios/stories").rglob("*.yaml")}
    assert names <= set(listed.stdout.split())


@pytest.mark.parametrize("arguments", [(), ("lab",), ("lab", "up")], ids=["trimtab", "trimtab lab", "trimtab lab up"])
def test_the_short_help_option_works(arguments: tuple[str, ...], product_and_lab: Path) -> None:
    """For the lab's commands as for the product's."""
    shown = run(product_and_lab, "-m", "trimtab", *arguments, "-h")
    assert (shown.returncode, "Examples:" in shown.stdout) == (0, True)


@pytest.mark.parametrize("arguments", [(), ("lab",)], ids=["trimtab", "trimtab lab"])
def test_help_imports_neither_numpy_nor_the_client(arguments: tuple[str, ...], product_and_lab: Path) -> None:
    """So that it stays quick. `trimtab --help` does not import the lab either."""
    program = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from trimtab.cli import main; main()"
    modules = run(product_and_lab, "-c", program, *arguments, "--help").stdout.splitlines()[-1].split()
    assert "trimtab.cli" in modules
    assert not {"numpy", "aiohttp", "msgspec", "rich", "cryptography"} & set(modules)
    lab_modules = {name for name in modules if name.startswith("trimtab_lab")}
    command_line = {"trimtab_lab", *(f"trimtab_lab.cli{name}" for name in ("", ".commands", ".options"))}
    assert lab_modules == (command_line if arguments else set())


def test_both_have_one_version_and_require_each_other_in_it() -> None:
    """The lab uses the product's modules, so the two are released together."""
    version = trimtab.__version__
    assert trimtab_lab.__version__ == version
    assert read_project(PRODUCT)["optional-dependencies"]["lab"] == [f"trimtab-lab=={version}"]
    assert f"trimtab=={version}" in read_project(LAB)["dependencies"]


def test_both_have_the_same_licence() -> None:
    """A distribution cannot take it from a folder above its own."""
    assert (LAB / "LICENSE").read_text() == (PRODUCT / "LICENSE").read_text()


def test_the_lock_file_covers_both() -> None:
    """A clone's `make install` brings what either depends on, and neither of the two from a registry."""
    pinned = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    declared = [text for project in (PRODUCT, LAB) for text in read_project(project)["dependencies"]]
    assert {Requirement(text).name for text in declared} - OURS <= pinned
    assert not OURS & pinned


def test_the_image_holds_the_product_alone() -> None:
    """Of the sources, the build stage sees the product's folder only, and installs no extra."""
    lines = (ROOT / "Containerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split() if word.startswith("src")]
    assert copied == ["src/trimtab"]
    assert not any("[lab]" in line or "trimtab_lab" in line for line in lines)
