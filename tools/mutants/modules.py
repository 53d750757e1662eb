"""The core: which modules are mutated, and which tests must notice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CORE: Mapping[str, tuple[str, ...]] = {
    "ranking": ("src/trimtab/ranking",),
    "subsets": ("src/trimtab/subsets",),
    "scaledown/intent": ("src/trimtab/scaledown/intent", "src/trimtab/scaledown/cost_writer.py"),
    "scaledown/results": ("src/trimtab/scaledown/results",),
    "scaledown/continuous": ("src/trimtab/scaledown/continuous",),
    "unitedtopology/admission": ("src/trimtab/unitedtopology/admission",),
    "unitedtopology/controller": ("src/trimtab/unitedtopology/controller",),
    "kube/queues": ("src/trimtab/kube/queues.py",),
    "kube/informers": ("src/trimtab/kube/informers.py",),
    "kube/leases": ("src/trimtab/kube/leases.py",),
    "snapshot/counts": ("src/trimtab/snapshot/counts.py",),
    "snapshot/view": (
        "src/trimtab/snapshot/view.py",
        "src/trimtab/snapshot/pods.py",
        "src/trimtab/snapshot/usages.py",
    ),
    "api/pooling": ("src/trimtab/api/pooling.py", "src/trimtab/api/bounded_caches.py"),
}
"""Groups of modules, by the name that the report gives them."""

TESTS = (
    "tests/unit/ranking",
    "tests/unit/subsets",
    "tests/unit/scaledown",
    "tests/unit/unitedtopology",
    "tests/unit/kube/test_queues.py",
    "tests/unit/kube/test_informers.py",
    "tests/unit/kube/test_caches.py",
    "tests/unit/kube/test_components.py",
    "tests/unit/kube/test_leases.py",
    "tests/unit/kube/test_lists.py",
    "tests/unit/kube/test_runners.py",
    "tests/unit/kube/test_side_loop.py",
    "tests/unit/kube/test_unreadable.py",
    "tests/unit/snapshot",
    "tests/unit/api/test_bounded_caches.py",
    "tests/unit/api/test_pooling.py",
    "tests/unit/placement/test_spread.py",
    "tests/unit/placement/test_interpod.py",
)
"""All tests that may run; which of them a mutant gets, coverage says."""


def all_paths(root: Path) -> list[str]:
    """The files of all groups."""
    return [path for group in CORE for path in paths(group, root)]


def paths(group: str, root: Path) -> list[str]:
    """The files of a group."""
    found: list[str] = []
    for each in CORE[group]:
        whole = root / each
        files = sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]
        found += [str(file.relative_to(root)) for file in files]
    return found
