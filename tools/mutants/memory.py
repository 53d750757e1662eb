"""What runs remember in `.mutants_cache`: the coverage of each file of tests, and which test detected which mutant.

The coverage of a file is recorded again when the file changes, a helper that it imports, or a file of the core that its
tests execute. A change of other files of the core cannot change what they execute.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.coverage import Coverage
from tools.mutants.operators import Identity

_TESTS_IMPORT = re.compile(r"^from (tests\.[a-z_.]+) import", re.MULTILINE)


@dataclass(frozen=True)
class _Recording:
    """The coverage of a file of tests, and what it depends on."""

    coverage: Coverage
    fingerprints: Mapping[str, str]
    """Of each file that it depends on, by path from the root."""


class CoverageCache:
    """The coverage of files of tests, each as long as nothing that it depends on has changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / ".mutants_cache" / "coverage"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._fingerprints: dict[str, str] = {}

    def get(self, file: Path, tests: Collection[str], record: Callable[[], Coverage]) -> Coverage:
        """The coverage of these tests of a file, as recorded before or now."""
        name = str(file.relative_to(self._root))
        cache = self._folder / (name.replace("/", "-") + ".pickle")
        if cache.exists():
            recording: _Recording = pickle.loads(cache.read_bytes())  # noqa: S301 - our own cache
            if self._is_valid(recording, tests):
                return recording.coverage
        coverage = record()
        depends_on = (*sorted(self._imported(name)), *sorted(coverage.paths))
        recording = _Recording(coverage, {path: self._fingerprint(path) for path in depends_on})
        cache.write_bytes(pickle.dumps(recording))
        return coverage

    def _imported(self, name: str) -> set[str]:
        """A file of tests, the files of tests that it imports, directly or not, and what pytest loads for them."""
        shared = {str(folder / "conftest.py") for folder in Path(name).parents}
        found = {name, *(path for path in shared if (self._root / path).exists())}
        queue = list(found)
        while queue:
            text = (self._root / queue.pop()).read_text(encoding="utf-8")
            paths = {f"{module.replace('.', '/')}.py" for module in _TESTS_IMPORT.findall(text)}
            new = {path for path in paths if (self._root / path).exists()} - found
            found |= new
            queue += new
        return found

    def _is_valid(self, recording: _Recording, tests: Collection[str]) -> bool:
        known = {*recording.coverage.lines, *recording.coverage.failed}
        is_unchanged = all(self._fingerprint(path) == each for path, each in recording.fingerprints.items())
        return is_unchanged and known == set(tests)

    def _fingerprint(self, path: str) -> str:
        if path not in self._fingerprints:
            file = self._root / path
            self._fingerprints[path] = hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""
        return self._fingerprints[path]


class History:
    """By which test each mutant was detected when it was tried last; by none, if it survived."""

    def __init__(self, root: Path) -> None:
        self._file = root / ".mutants_cache" / "history.pickle"
        self._detected: dict[Identity, str] = {}
        if self._file.exists():
            self._detected = pickle.loads(self._file.read_bytes())  # noqa: S301 - our own cache
        self._detections: dict[tuple[str, str], Counter[str]] = {}
        for identity, test in self._detected.items():
            self._count(identity, test)

    def survived(self, identity: Identity) -> bool:
        """Whether no test detected a mutant when it was tried last."""
        return self._detected.get(identity) == ""

    def detections(self, identity: Identity) -> Mapping[str, int]:
        """How many mutants of the same function each test has detected."""
        return self._detections.get((identity.path, identity.function), {})

    def add(self, identity: Identity, test: str) -> None:
        """Remember which test has detected a mutant."""
        self._detected[identity] = test
        self._count(identity, test)

    def save(self) -> None:
        """Keep it for the next run."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_bytes(pickle.dumps(self._detected))

    def _count(self, identity: Identity, test: str) -> None:
        if test:
            self._detections.setdefault((identity.path, identity.function), Counter())[test] += 1
