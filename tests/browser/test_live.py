"""The page on a running lab: what kubectl does is shown, and the lab's buttons do what kubectl would."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.browser.labs import Lab

if TYPE_CHECKING:
    from playwright.sync_api import Page

WEB = "default/Deployment/web"
RACK = "example.com/rack"
Told = Callable[[str, object], None]

pytestmark = pytest.mark.slow


def seen(page: Page, script: str, argument: object = None) -> float:
    """Wait until something is shown; the milliseconds that took."""
    started = time.monotonic()
    page.wait_for_function(script, arg=argument, polling="raf")
    return (time.monotonic() - started) * 1000


def pods(lab: Lab, app: str) -> dict[str, str]:
    """The node of each pod of an application."""
    found = json.loads(lab.kubectl("get", "pods", "-l", f"app={app}", "-o", "json"))["items"]
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in found}


HAS_POD = 'name => document.querySelector(`.pod[data-key="default/${name}"]`) !== null'
HAS_NO_POD = 'name => document.querySelector(`.pod[data-key="default/${name}"]`) === null'
OWN_PODS = "count => document.querySelectorAll('.pod[data-own][data-state=ready]').length === count"


def test_what_kubectl_does_to_pods_is_shown(page: Page, lab: Lab, record_property: Told) -> None:
    """Created, moved to another node, deleted; how long each took is reported, and no limit is asserted."""
    lab.kubectl("create", "deployment", "web", "--image=example.com/web:1", "--replicas=4")
    page.goto(f"{lab.url}?workload={WEB}")
    page.wait_for_selector("#map:not([hidden])")
    assert page.locator("#connection").inner_text() == "live"
    page.wait_for_function(OWN_PODS, arg=4)
    lab.kubectl("run", "alone", "--image=example.com/web:1", "--labels=app=alone")
    created = seen(page, HAS_POD, "alone")
    before = pods(lab, "web")
    gone, node = next((name, where) for name, where in before.items() if where)
    lab.kubectl("cordon", node)
    lab.kubectl("delete", "pod", gone, "--wait=false")
    moved = seen(page, HAS_NO_POD, gone)
    page.wait_for_function(OWN_PODS, arg=4)
    now = pods(lab, "web")
    (fresh,) = now.keys() - before.keys()
    assert now[fresh] != node
    lab.kubectl("uncordon", node)
    lab.kubectl("delete", "pod", "alone", "--wait=true")
    deleted = seen(page, HAS_NO_POD, "alone")
    record_property(
        "told", f"shown after kubectl: created {created:.0f} ms, moved {moved:.0f} ms, deleted {deleted:.0f} ms"
    )


def test_the_buttons_of_the_lab(page: Page, lab: Lab) -> None:
    """Add a zone, fail it, let it recover, scale: each as a command would, and each is shown."""
    lab.kubectl("create", "deployment", "shop", "--image=example.com/shop:1", "--replicas=6")
    shop = "default/Deployment/shop"
    page.goto(f"{lab.url}?tab=lab&workload={shop}")
    page.wait_for_selector("#map:not([hidden]) article.domain")
    assert page.locator("#lab-zone").input_value() not in {"", "zone-a", "zone-b"}
    page.locator("#lab-zone").fill("zone-new")
    page.locator("#lab-nodes").fill("2")
    page.locator('[data-action="add-zone"]').click()
    page.wait_for_function("() => document.getElementById('lab-result').textContent.startsWith('added 2 nodes')")
    page.locator('[data-tab="map"]').click()
    page.wait_for_selector('[data-domain="zone-new"] .node')
    page.locator('[data-tab="lab"]').click()
    page.locator("#lab-workload").select_option(shop)
    page.locator("#lab-replicas").fill("9")
    page.locator('[data-action="scale"]').click()
    page.wait_for_function("() => document.getElementById('lab-result').textContent.startsWith('kubectl scale')")
    page.locator('[data-tab="map"]').click()
    page.wait_for_function(OWN_PODS, arg=9)
    assert page.locator('[data-domain="zone-new"] .count').inner_text() == "3"
    page.locator('[data-tab="lab"]').click()
    page.locator("#lab-zones").select_option("zone-new")
    page.locator('[data-action="fail-zone"]').click()
    page.wait_for_function("() => document.getElementById('lab-result').textContent.includes('no heartbeats')")
    page.locator('[data-action="recover-zone"]').click()
    page.wait_for_function("() => document.getElementById('lab-result').textContent.includes('recover')")
    page.locator("#lab-zone").fill("zone-a")
    page.locator('[data-action="add-zone"]').click()
    page.wait_for_function("() => document.getElementById('lab-result').textContent.includes('exists already')")


def test_zones_fail_whatever_the_map_is_grouped_by(page: Page, lab: Lab) -> None:
    """Grouped by racks, the buttons still list zones, and the name of a new one is free."""
    lab.kubectl("label", "nodes", "--all", f"{RACK}=rack-1", "--overwrite")
    page.goto(f"{lab.url}?tab=lab&key={RACK}")
    page.wait_for_selector('[data-domain="rack-1"] .node')
    offered = page.locator("#lab-zones option").all_text_contents()
    assert {"zone-a", "zone-b"} <= set(offered)
    assert "rack-1" not in offered
    assert page.locator("#lab-zone").input_value() not in {"", *offered}


def test_focus_in_the_table_survives_changes(page: Page, lab: Lab) -> None:
    """A row that changes keeps its link, and a keyboard its place."""
    lab.kubectl("create", "deployment", "cart", "--image=example.com/cart:1", "--replicas=2")
    page.goto(f"{lab.url}?tab=workloads")
    row = 'tr[data-key="default/Deployment/cart"]'
    page.locator(f"{row} a").focus()
    lab.kubectl("scale", "deployment/cart", "--replicas=3")
    page.locator(f"{row} td", has_text="3/3").wait_for()
    assert page.evaluate("() => document.activeElement.textContent") == "default/cart"


def test_a_scale_down_is_a_decision(page: Page, lab: Lab) -> None:
    """With what was left, and what stock may have left."""
    lab.kubectl("create", "deployment", "queue", "--image=example.com/queue:1", "--replicas=8")
    page.goto(f"{lab.url}?workload=default/Deployment/queue")
    page.wait_for_function(OWN_PODS, arg=8)
    lab.kubectl("scale", "deployment/queue", "--replicas=4")
    page.locator('[data-tab="decisions"]').click()
    card = page.locator('[data-sort="scale-down"]', has_text="default/Deployment/queue")
    card.first.wait_for()
    assert "8 → 4: left" in card.first.inner_text()
