"""A browser on a real dashboard: Debian's chromium, driven by Playwright, and a lab with kubectl beside it.

`make test-browser` installs Playwright. Where it or chromium is missing these tests are skipped, with the reason.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.labs import CHROMIUM, FLAGS, KUBECTL, WAIT, Lab, lab_up
from tests.unit.inspection.clusters import SOFT, Builder
from trimtab.inspection import files
from trimtab.inspection.cluster import Cluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

PACKAGES = ("playwright", "axe_playwright_python")


def missing() -> str:
    """Why there is no browser; empty where there is one."""
    if not all(map(importlib.util.find_spec, PACKAGES)):
        return "Playwright is not installed; `make test-browser` installs it"
    return "" if CHROMIUM else "this machine has no chromium; install Debian's, or set $CHROMIUM"


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark every test of this folder, and skip it where there is no browser."""
    reason = missing()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One chromium for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test on an error of its scripts or markup, or a breach of its content security policy."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    made = context.new_page()
    made.set_default_timeout(WAIT)
    errors: list[str] = []
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.on("console", lambda said: errors.append(said.text) if is_error(said) else None)
    yield made
    context.close()
    assert errors == []


def is_error(said: ConsoleMessage) -> bool:
    """Whether a message of the console is an error; that a request was refused is not, tests do that on purpose."""
    return said.type == "error" and not said.text.startswith("Failed to load resource")


def thirty() -> Cluster:
    """A workload of 30 pods, ten in each of three zones, and a smaller one that is level."""
    names = {f"zone-{zone}": [f"zone-{zone}-{number}" for number in (1, 2, 3, 4)] for zone in "abc"}
    on = [f"zone-{'abc'[number % 3]}-{number // 3 % 4 + 1}" for number in range(30)]
    api = [f"zone-{zone}-{number}" for zone in "abc" for number in (1, 2)]
    return Builder().nodes(**names).deployment("web", on, constraints=[SOFT]).deployment("api", api).build()


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A file of that cluster."""
    path = tmp_path / "cluster.json.zst"
    path.write_bytes(files.encode(files.to_file(thirty())))
    return path


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """`trimtab lab up` with two zones, until the tests end."""
    if KUBECTL is None:
        pytest.skip("this machine has no kubectl")
    folder = tmp_path_factory.mktemp("lab")
    shape = folder / "shape.yaml"
    shape.write_text("zones:\n- {name: zone-a, nodes: 2}\n- {name: zone-b, nodes: 2}\n")
    with lab_up(folder, "--shape", str(shape)) as started:
        yield started
