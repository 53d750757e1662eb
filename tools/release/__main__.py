"""`make release`: writes everything that a release consists of."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tools import kustomize
from tools.chart import files as chart
from tools.release import krew, sbom
from tools.release.archives import tar_gz, texts
from trimtab import __version__
from trimtab.install.text import as_yaml

ROOT = Path(__file__).parents[2]
PROJECTS = (ROOT, ROOT / "src" / "trimtab_lab")
CHECKSUMS = "SHA256SUMS"


def main() -> None:
    """Write the release of the commit that is checked out."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where to write it")
    parser.add_argument("--url", default=".", help="where the files will be found: for the manifest of krew")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    for path in write(options.folder, url=options.url, time=int(_git("%ct")), revision=_git("%H")):
        print(f"{path.stat().st_size:>10,}  {path.relative_to(options.folder)}")


def write(folder: Path, *, url: str, time: int, revision: str) -> list[Path]:
    """Write all files, and the checksums of all others last."""
    os.environ["SOURCE_DATE_EPOCH"] = str(time)
    distributions(folder)
    plugin = f"kubectl-trimtab-{__version__}.tar.gz"
    packed = {
        f"trimtab-{__version__}.tgz": tar_gz(texts(chart.files(), "trimtab"), time=time),
        f"trimtab-kustomize-{__version__}.tar.gz": tar_gz(texts(kustomize.files(), "trimtab"), time=time),
        plugin: tar_gz(krew.entries((ROOT / "LICENSE").read_text(encoding="utf-8")), time=time),
        f"trimtab-{__version__}.cdx.json": sbom.bill(time=time, revision=revision).encode(),
    }
    manifest = krew.manifest(url=f"{url}/{plugin}", sha256=hashlib.sha256(packed[plugin]).hexdigest())
    packed["trimtab.krew.yaml"] = as_yaml([manifest]).encode()
    for name, data in packed.items():
        (folder / name).write_bytes(data)
    (folder / CHECKSUMS).write_text(checksums(folder), encoding="utf-8")
    return sorted(folder.iterdir())


def distributions(folder: Path) -> None:
    """Build the sdist and the wheel of the product and of the lab, without network."""
    for project in PROJECTS:
        for builder in (SdistBuilder, WheelBuilder):
            list(builder(str(project)).build(directory=str(folder), versions=["standard"]))


def checksums(folder: Path) -> str:
    """A line for each file, as `sha256sum --check` reads it."""
    found = sorted(path for path in folder.iterdir() if path.name != CHECKSUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in found)


def _git(form: str) -> str:
    command = ["git", "-C", str(ROOT), "log", "-1", f"--format={form}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603 - our own


if __name__ == "__main__":
    main()
