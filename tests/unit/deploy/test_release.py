"""What a release consists of, and the image that is built from it."""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

import trimtab
from tools import kustomize
from tools.chart import files as chart
from tools.release import __main__ as release
from tools.release import krew, sbom
from tools.release.archives import Entry, tar_gz, texts

ROOT = Path(__file__).parents[3]
TIME = 1_700_000_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release."""
    folder = tmp_path_factory.mktemp("release")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "")
        release.write(folder, url="https://example.com/v1", time=TIME, revision="abc")
    return folder


def contents(path: Path) -> dict[str, str]:
    """The files of an archive."""
    with tarfile.open(path) as archive:
        return {each.name: _text(archive, each) for each in archive.getmembers()}


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    assert file is not None
    return file.read().decode()


def test_a_release_has_everything_and_checksums_of_it(written: Path) -> None:
    """As `sha256sum --check` reads them."""
    version = trimtab.__version__
    lines = (written / release.CHECKSUMS).read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert set(sums) == {path.name for path in written.iterdir()} - {release.CHECKSUMS}
    assert set(sums) == {
        f"trimtab-{version}.tar.gz",
        f"trimtab-{version}-py3-none-any.whl",
        f"trimtab_lab-{version}.tar.gz",
        f"trimtab_lab-{version}-py3-none-any.whl",
        f"trimtab-{version}.tgz",
        f"trimtab-kustomize-{version}.tar.gz",
        f"kubectl-trimtab-{version}.tar.gz",
        f"trimtab-{version}.cdx.json",
        "trimtab.krew.yaml",
    }
    for name, digest in sums.items():
        assert hashlib.sha256((written / name).read_bytes()).hexdigest() == digest


def test_archives_hold_the_generated_files(written: Path) -> None:
    """Helm wants the folder to be called as the chart."""
    version = trimtab.__version__
    made = {f"trimtab-{version}.tgz": chart.files(), f"trimtab-kustomize-{version}.tar.gz": kustomize.files()}
    for name, files in made.items():
        assert contents(written / name) == {f"trimtab/{path}": text for path, text in files.items()}


def test_an_archive_does_not_depend_on_when_and_in_which_order_it_is_made() -> None:
    """Two builds of one commit can be compared."""
    one, other = {"b": "2", "a": "1"}, {"a": "1", "b": "2"}
    assert tar_gz(texts(one, "f"), time=TIME) == tar_gz(texts(other, "f"), time=TIME)
    packed = tar_gz({"run": Entry(b"#!", is_executable=True)}, time=TIME)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        (member,) = archive.getmembers()
    assert (member.mtime, member.mode, member.uid) == (TIME, 0o755, 0)


def test_the_bill_of_materials_lists_what_an_image_contains() -> None:
    """All that the product requires, with the versions of the lock file, and nothing of the lab."""
    document = json.loads(sbom.bill(time=TIME, revision="abc"))
    found = {each["name"]: each["version"] for each in document["components"]}
    assert {"aiohttp", "msgspec", "numpy", "multidict"} <= set(found)
    assert not {"trimtab", "jsonschema-rs", "pytest"} & set(found)
    assert found.items() <= sbom.locked().items()
    references = {each["bom-ref"] for each in (*document["components"], document["metadata"]["component"])}
    assert {each["ref"] for each in document["dependencies"]} == references
    assert all(set(each["dependsOn"]) <= references for each in document["dependencies"])
    assert document == json.loads(sbom.bill(time=TIME, revision="abc"))


def test_the_manifest_of_krew_names_the_archive(written: Path) -> None:
    """By URL and checksum, and what to run of it."""
    plugin = yaml.safe_load((written / "trimtab.krew.yaml").read_text())
    (platform,) = plugin["spec"]["platforms"]
    archive = written / platform["uri"].removeprefix("https://example.com/v1/")
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert set(contents(archive)) == {each["from"] for each in platform["files"]}
    assert platform["bin"] in contents(archive)
    assert re.fullmatch(r"v\d+\.\d+\.\d+", plugin["spec"]["version"])
    assert len(plugin["spec"]["shortDescription"]) <= 50


@pytest.mark.parametrize(
    ("programs", "want"),
    [
        pytest.param(["trimtab"], "trimtab plan deploy/web", id="the program that is installed"),
        pytest.param(
            ["pipx"], f"pipx run --spec trimtab=={trimtab.__version__} trimtab plan deploy/web", id="fetched by pipx"
        ),
        pytest.param(["pipx", "trimtab"], "trimtab plan deploy/web", id="the installed one first"),
        pytest.param([], "", id="neither"),
    ],
)
def test_the_plugin_starts_trimtab(programs: list[str], want: str, tmp_path: Path) -> None:
    """Or says what to install."""
    for name in programs:
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    plugin = tmp_path / "kubectl-trimtab"
    plugin.write_text(krew.PLUGIN)
    command = ["/bin/sh", str(plugin), "plan", "deploy/web"]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert done.stdout.strip() == want
    assert (done.returncode, "pipx install trimtab" in done.stderr) == ((0, False) if want else (127, True))


def test_the_image_runs_without_root_and_is_built_from_a_base_that_can_be_pinned() -> None:
    """Both stages from the same base; the last has a user, and neither installs packages of the system."""
    lines = (ROOT / "Containerfile").read_text().splitlines()
    assert [line.split()[1] for line in lines if line.startswith("FROM ")] == ["${BASE}", "${BASE}"]
    assert "USER 65532:65532" in lines
    assert not any("apt-get" in line or "src/trimtab_lab" in line for line in lines)
    ignored = (ROOT / ".containerignore").read_text().splitlines()
    assert "*" in ignored
    copied = {
        part for line in lines if line.startswith("COPY ") and "--from" not in line for part in line.split()[1:-1]
    }
    assert {f"!{part}" for part in copied} <= set(ignored)
