"""The page on a file: it shows what the commands print, works by keyboard, is accessible, and takes names as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from tests.browser.labs import dashboard
from tests.unit.inspection.clusters import Builder
from trimtab.api import codec
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.cli.commands import commands
from trimtab.inspection import files

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WEB = "default/Deployment/web"
TABS = ("map", "workloads", "decisions", "topologies")
HOSTILE = [
    "<img src=x onerror=window.hacked=1>",
    '"><script>window.hacked=1</script>',
    "'-window.hacked=1-'",
    "__proto__",
    "javascript:window.hacked=1",
]
MOST_PRESSES = 60


def plan(capture: Path, replicas: int) -> Any:
    """What `trimtab plan -o json` prints."""
    command = ["plan", "deploy/web", "--replicas", str(replicas), "-o", "json", "--snapshot", str(capture)]
    done = CliRunner().invoke(commands, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_page_loads(page: Page, capture: Path) -> None:
    """With the domains, nodes and pods of the cluster, each pod with its place."""
    with dashboard(capture.parent, "--snapshot", str(capture)) as url:
        page.goto(url)
        page.wait_for_selector('[data-domain="zone-a"] .pod[data-own]')
        assert page.locator("article.domain").count() == 3
        assert page.locator(".pod[data-own]").count() == 30
        assert page.locator("#connection").inner_text() == "file"
        assert {int(text) for text in page.locator(".pod[data-own]").all_inner_texts()} == set(range(1, 31))
        assert page.locator("#map-workload").input_value() == WEB


def test_the_slider_agrees_with_the_command_for_every_size(page: Page, capture: Path) -> None:
    """Victims, and the pods of each domain: now, after the plan, and as stock may leave them; the result in large."""
    with dashboard(capture.parent, "--snapshot", str(capture)) as url:
        page.goto(f"{url}?workload={WEB}")
        for replicas in range(29, -1, -1):
            page.locator("#replicas").fill(str(replicas))
            page.wait_for_selector(f'#plan[data-shown="{WEB}@{replicas}"]', state="attached")
            (controller,) = plan(capture, replicas)["controllers"]
            names = page.locator("[data-victims] .pod-name").all_text_contents()
            assert names == [victim["pod"] for victim in controller["victims"]]
            for constraint in controller["constraints"]:
                columns = (constraint[name] for name in ("domains", "before", "after", "stock"))
                assert numbers(page, constraint["topologyKey"]) == [list(row) for row in zip(*columns, strict=True)]
            zones = controller["constraints"][0]
            expected = [" / ".join(map(str, zones[name])) for name in ("after", "stock")]
            assert page.locator(".verdict dd").all_text_contents() == expected
            page.wait_for_function(
                "count => document.querySelectorAll('.pod[data-goes]').length === count", arg=len(names)
            )
            marked = page.locator(".pod[data-goes]").evaluate_all("marks => marks.map((mark) => mark.dataset.key)")
            assert sorted(marked) == sorted(f"default/{name}" for name in names)


def numbers(page: Page, topology_key: str) -> Any:
    """The rows of a constraint: its domains, each with the pods now, after the plan, and by stock."""
    rows = page.locator(f'.constraint[data-key="{topology_key}"] tbody tr')
    number = "[...row.querySelectorAll('.number')].map((each) => Number(each.textContent))"
    return rows.evaluate_all(f"rows => rows.map((row) => [row.dataset.domain, ...{number}])")


def test_the_address_keeps_the_state(page: Page, browser: Browser, capture: Path) -> None:
    """A copied link shows the same workload, size and grouping."""
    with dashboard(capture.parent, "--snapshot", str(capture)) as url:
        page.goto(url)
        page.wait_for_selector(".pod")
        page.locator("#replicas").fill("12")
        page.wait_for_selector(f'#plan[data-shown="{WEB}@12"]', state="attached")
        other = browser.new_page()
        other.goto(page.url)
        other.wait_for_selector(f'#plan[data-shown="{WEB}@12"]', state="attached")
        assert other.locator("#replicas").input_value() == "12"
        other.close()
        page.locator('[data-tab="workloads"]').click()
        page.wait_for_selector("#workloads:not([hidden])")
        page.go_back()
        page.wait_for_selector("#map:not([hidden])")


def press_until(page: Page, key: str, condition: str) -> None:
    """Press a key until the focused element meets a condition."""
    for _ in range(MOST_PRESSES):
        if page.evaluate(f"() => {{ const it = document.activeElement; return Boolean({condition}); }}"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{condition} is not reached by {key}")


def test_everything_can_be_reached_by_keyboard(page: Page, capture: Path) -> None:
    """Tabs, choices, the slider, every pod, the table with its filter and order. No pointer is used."""
    with dashboard(capture.parent, "--snapshot", str(capture)) as url:
        page.goto(f"{url}?workload={WEB}")
        page.wait_for_selector(".pod")
        press_until(page, "Tab", "it.classList.contains('skip')")
        press_until(page, "Tab", "it.id === 'map-workload'")
        press_until(page, "Tab", "it.classList.contains('pod')")
        first = page.evaluate("() => document.activeElement.dataset.key")
        page.wait_for_function(
            "key => document.getElementById('explanation').textContent.startsWith(key)", arg=first.split("/")[1]
        )
        reached = {first}
        for _ in range(35):
            page.keyboard.press("ArrowRight")
            reached.add(page.evaluate("() => document.activeElement.dataset.key"))
        assert len(reached) == 36
        page.keyboard.press("ArrowDown")
        assert page.evaluate("() => document.activeElement.dataset.key") is not None
        press_until(page, "Tab", "it.id === 'replicas'")
        for _ in range(3):
            page.keyboard.press("ArrowLeft")
        page.wait_for_selector(f'#plan[data-shown="{WEB}@27"]', state="attached")
        press_until(page, "Tab", "it.parentElement?.classList.contains('victims')")
        page.keyboard.press("Enter")
        page.wait_for_selector("details.victims[open]")
        press_until(page, "Shift+Tab", "it.dataset.tab === 'workloads'")
        page.keyboard.press("Enter")
        page.wait_for_selector("#workloads:not([hidden])")
        press_until(page, "Tab", "it.id === 'workloads-filter'")
        page.keyboard.type("api")
        page.wait_for_function("() => document.querySelectorAll('#workloads-table tbody tr').length === 1")
        press_until(page, "Tab", "it.textContent === 'Skew'")
        page.keyboard.press("Enter")
        page.wait_for_selector('th[data-column="skew"][aria-sort="ascending"]')
        press_until(page, "Tab", "it.localName === 'a' && it.textContent === 'default/api'")
        page.keyboard.press("Enter")
        page.wait_for_selector("#map:not([hidden])")
        assert page.locator("#map-workload").input_value() == "default/Deployment/api"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_problem_of_accessibility(browser: Browser, topologies: Path, scheme: Any) -> None:
    """By axe-core, on every view, with a plan shown."""
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce", bypass_csp=True)
    page = context.new_page()
    with dashboard(topologies.parent, "--snapshot", str(topologies)) as url:
        for tab in TABS:
            page.goto(f"{url}?tab={tab}&workload={WEB}&replicas=20")
            page.wait_for_selector(f"#{tab}:not([hidden])")
            page.wait_for_selector(f'#plan[data-shown="{WEB}@20"]', state="attached")
            found = Axe().run(page).response["violations"]
            serious = [
                (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")
            ]
            assert serious == [], tab
    context.close()


@pytest.fixture
def topologies(capture: Path) -> Path:
    """The file with a UnitedTopology."""
    cluster = files.load(capture)
    subsets = [
        {"name": "own", "nodeSelectorTerm": zone_is("zone-a"), "maxReplicas": 8},
        {"name": "rented", "nodeSelectorTerm": zone_is("zone-b"), "maxReplicas": "30%"},
        {"name": "spot"},
    ]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    tree = {
        "metadata": {"name": "pools", "namespace": "default", "uid": "pools"},
        "spec": {"targetRef": target, "subsets": subsets},
        "status": {"subsetStatuses": [{"name": "spot", "creating": {"a": "2026-03-01T11:59:59Z"}}]},
    }
    objects: dict[type[Any], Any] = {**cluster.objects, UnitedTopology: [codec.convert(tree, UnitedTopology)]}
    made = type(cluster)(time=cluster.time, objects=objects, namespace="default")
    capture.write_bytes(files.encode(files.to_file(made)))
    return capture


def zone_is(name: str) -> Any:
    """The term of the nodes in a zone."""
    return {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [name]}]}


def test_subsets_are_shown_with_limits_reservations_and_levels(page: Page, topologies: Path) -> None:
    """As the rules of UnitedTopology have them for the workload's size."""
    with dashboard(topologies.parent, "--snapshot", str(topologies)) as url:
        page.goto(f"{url}?tab=topologies")
        rows = page.locator('[data-key="default/pools"] tbody tr')
        rows.first.wait_for()
        cells = rows.evaluate_all(
            "rows => rows.map((row) => [...row.children].slice(0, 5).map((cell) => cell.textContent.trim()))"
        )
        assert cells == [
            ["own", "10", "–", "8", "0"],
            ["rented", "10", "–", "9", "0"],
            ["spot", "10", "–", "none", "1"],
        ]
        filling = rows.nth(0).locator(".filling").get_attribute("aria-label")
        assert filling == "8 Guaranteed, 2 Redundant"


def test_without_the_token_nothing_is_shown(page: Page, capture: Path) -> None:
    """A missing or wrong one is answered with what to do, and the page has no name of any object."""
    secret = capture.parent / "token"
    secret.write_text("correct horse\n")
    with dashboard(capture.parent, "--snapshot", str(capture), "--token-file", str(secret)) as url:
        page.goto(url)
        page.wait_for_selector("#signin:not([hidden])")
        assert "a token is needed" in page.locator("#signin-reason").inner_text()
        page.locator("#token").fill("wrong")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.getElementById('signin-reason').textContent === 'the token is wrong'")
        assert page.locator("#map").is_hidden()
        for word in ("web-1", "zone-a", "default/", str(capture)):
            assert word not in page.content()
        page.locator("#token").fill("correct horse")
        page.keyboard.press("Enter")
        page.wait_for_selector(".pod[data-own]")
        assert "correct" not in page.content()
        assert "correct" not in page.url


def test_hostile_names_are_text(page: Page, capture: Path) -> None:
    """API servers refuse such names; a file, or a label, may have them. They are shown as they are written."""
    builder = Builder()
    for number, text in enumerate(HOSTILE):
        builder.put(hostile_node(f"n{number}", text), hostile_pod(text, f"n{number}"))
    builder.deployment("web", ["n0", "n1"])
    capture.write_bytes(files.encode(files.to_file(builder.build())))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    with dashboard(capture.parent, "--snapshot", str(capture)) as url:
        for tab in TABS:
            page.goto(f"{url}?tab={tab}&workload={WEB}&filter={HOSTILE[0]}")
            page.wait_for_selector(f"#{tab}:not([hidden])")
        page.goto(f"{url}?workload={WEB}")
        page.wait_for_selector("article.domain")
        titles = page.locator("article.domain h3").all_text_contents()
        assert set(HOSTILE) <= set(titles)
        page.locator('.pod[data-key^="default/<img"]').focus()
        page.wait_for_function(
            "text => document.getElementById('explanation').textContent.includes(text)", arg=HOSTILE[0]
        )
        assert page.locator("main img, main script").count() == 0
        assert page.evaluate("() => window.hacked") is None
        assert all(each.startswith(url) for each in asked)


def hostile_node(name: str, zone: str) -> Node:
    """A node whose zone is a hostile text."""
    labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
    return codec.convert({"metadata": {"name": name, "uid": name, "labels": labels}}, Node)


def hostile_pod(name: str, node: str) -> Pod:
    """A pod whose name and labels are hostile texts."""
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {name: name}}
    return codec.convert({"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}, Pod)


def test_a_phone_shows_everything_without_scrolling_sideways(browser: Browser, topologies: Path) -> None:
    """360 pixels wide, on every view, with names that are as long as names can be."""
    cluster = files.load(topologies)
    long = Builder().deployment("x" * 63, ["zone-a-1"], namespace="y" * 63).build()
    objects = {kind: [*cluster.all(kind), *long.all(kind)] for kind in {**cluster.objects, **long.objects}}
    made = type(cluster)(time=cluster.time, objects=objects, namespace="default")
    topologies.write_bytes(files.encode(files.to_file(made)))
    page = browser.new_page(viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    with dashboard(topologies.parent, "--snapshot", str(topologies)) as url:
        for tab in TABS:
            page.goto(f"{url}?tab={tab}&workload={WEB}&replicas=20")
            page.wait_for_selector(f"#{tab}:not([hidden])")
            page.wait_for_selector(f'#plan[data-shown="{WEB}@20"]', state="attached")
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 360, tab
    page.close()


def test_large_clusters_are_drawn_by_domain(
    page: Page, large: Path, record_property: Callable[[str, object], None]
) -> None:
    """Nodes are cells of a canvas, which the keyboard walks; the pods of the chosen workload are still planned."""
    with dashboard(large.parent, "--snapshot", str(large)) as url:
        page.goto(f"{url}?workload={WEB}")
        page.wait_for_selector("article.domain canvas")
        label = page.locator('[data-domain="zone-a"] canvas').get_attribute("aria-label")
        assert label is not None
        assert label.startswith("100 nodes: ")
        page.locator('[data-domain="zone-a"] canvas').focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => document.getElementById('explanation').textContent.startsWith('zone-a-0: ')")
        page.wait_for_function("() => document.getElementById('explanation').textContent.includes(' of 30: ')")
        page.locator("#replicas").fill("10")
        page.wait_for_selector(f'#plan[data-shown="{WEB}@10"]', state="attached")
        record_property("told", f"{page.locator('#cluster').inner_text()}")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """300 nodes and 2,430 pods."""
    builder = Builder().nodes(**{f"zone-{zone}": [f"zone-{zone}-{number}" for number in range(100)] for zone in "abc"})
    for number in range(24):
        builder.deployment(f"w{number}", [f"zone-{'abc'[at % 3]}-{(at + number) % 100}" for at in range(100)])
    builder.deployment("web", [f"zone-{'abc'[at % 3]}-{at}" for at in range(30)])
    path = tmp_path / "large.json.zst"
    path.write_bytes(files.encode(files.to_file(builder.build())))
    return path
