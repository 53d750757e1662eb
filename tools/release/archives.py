"""Archives that are the same whenever and wherever they are made."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of an archive."""

    data: bytes
    is_executable: bool = False


def tar_gz(entries: Mapping[str, Entry], *, time: int) -> bytes:
    """A compressed archive of these files, by path, all with this time (seconds since 1970)."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, entry in sorted(entries.items()):
            info = tarfile.TarInfo(path)
            info.size, info.mtime, info.mode = len(entry.data), time, 0o755 if entry.is_executable else 0o644
            archive.addfile(info, io.BytesIO(entry.data))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=time) as compressed:
        compressed.write(plain.getvalue())
    return packed.getvalue()


def texts(files: Mapping[str, str], folder: str) -> dict[str, Entry]:
    """Texts as the files of a folder."""
    return {f"{folder}/{path}": Entry(text.encode()) for path, text in files.items()}
