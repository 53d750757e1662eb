"""Takes the pictures of the dashboard, and records its animation, from real labs: `make screenshots`.

Two labs are taken through the same story with kubectl: 20 pods on two zones, a third zone, 30 pods, 20 again. With
`--control-plane DIR` they run on these Kubernetes binaries, and in the first nothing of Trimtab runs: kube-scheduler
places pods, kube-controller-manager deletes them. Without it they are embedded labs, and the first has Trimtab's
scheduler, which they need. What is drawn is what the two dashboards show. chromium and kubectl are needed. The
pictures in the repository are those of real binaries: commit none of an embedded lab.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw, ImageFont

from tests.browser.labs import CHROMIUM, FLAGS, KUBECTL, WAIT, Lab, lab_up

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER = Path(__file__).parents[1] / "docs" / "images"
WEB = "default/Deployment/web"
SHAPE = "zones:\n- {name: zone-a, nodes: 12}\n- {name: zone-b, nodes: 12}\n"
"""A pod a node: where nodes have several, Kubernetes deletes these first, and zones do not come into it."""
READY = "count => document.querySelectorAll('.pod[data-own][data-state=ready]').length === count"
PLANNED = "#plan[data-shown='default/Deployment/web@20']"
ALL_PODS = "count => document.querySelectorAll('.pod[data-own]').length === count"
_STYLE = """text => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets = [sheet];
}"""
SUBSETS = Path(__file__).parents[1] / "tests" / "browser" / "subsets.yaml"
SHOWN = {
    "workloads": "tr[data-key='default/Deployment/shop'] td:has-text('10/10')",
    "decisions": '[data-sort="scale-down"]',
    "topologies": '[data-key="default/shop"] [aria-label*="Guaranteed"]',
    "lab": "#lab-result[data-state=done]",
}
"""What each view must have before its picture is taken."""
_AGE = 45.0
"""Seconds until the first pods are old: ages are compared by their logarithm."""
_FRAME = 0.35
_SHOWN = 450
"""Milliseconds for which a frame of the animation is shown; the last of each step longer."""
_LAST = 2600
_RESULT = 5000
"""For how long the last frame is shown."""
_SETTLED = 1500
"""Milliseconds until a view has what has just happened."""
_WIDTH, _HEIGHT = 560, 360
_TITLE = 64


@dataclass
class Recording:
    """The frames of one side of the animation, by step."""

    title: str
    lab: Lab
    page: Page
    steps: list[list[Image.Image]] = field(default_factory=list)

    def step(self) -> None:
        """Begin the next step of the story."""
        self.steps.append([])

    def frame(self) -> None:
        """Take a frame."""
        self.steps[-1].append(Image.open(io.BytesIO(self.page.screenshot())).convert("RGB"))


def main() -> None:
    """Take everything, or only the animation."""
    parser = argparse.ArgumentParser(prog="make screenshots", description=__doc__)
    parser.add_argument("--control-plane", help="a folder with Kubernetes binaries; the embedded lab without it")
    arguments = parser.parse_args()
    if missing := [name for name, path in (("chromium", CHROMIUM), ("kubectl", KUBECTL)) if path is None]:
        parser.error(
            f"this machine has no {' and no '.join(missing)}; install it (Debian's chromium, or set $CHROMIUM)"
        )
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    real = ("--control-plane", arguments.control_plane) if arguments.control_plane else ()
    with sync_playwright() as playwright, ExitStack() as stack:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        stock = stack.enter_context(_lab("--no-product", *real) if real else _lab("--component", "scheduler"))
        trimtab = stack.enter_context(_lab(*real))
        sides = [
            Recording(_stock_title(stock, is_real=bool(real)), stock, _page(browser, stock.url, compact=True)),
            Recording("with Trimtab", trimtab, _page(browser, trimtab.url, compact=True)),
        ]
        _play(sides, browser)
        _animate(sides, FOLDER / "scale-down.gif")
        browser.close()


def _stock_title(lab: Lab, *, is_real: bool) -> str:
    """What runs in the cluster on the left."""
    if not is_real:
        return "the lab without Trimtab's webhooks"
    found: str = json.loads(lab.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    return f"Kubernetes {found.removeprefix('v').partition('+')[0]} alone"


def _left(page: Page) -> str:
    """The pods in each domain, as a page shows them."""
    return "/".join(page.locator("article.domain .count").all_inner_texts())


@contextmanager
def _lab(*options: str) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory() as folder:
        shape = Path(folder) / "shape.yaml"
        shape.write_text(SHAPE)
        with lab_up(Path(folder), "--shape", str(shape), *options) as lab:
            yield lab


def _page(browser: Browser, url: str, *, compact: bool = False, scheme: Any = "light", width: int = 1360) -> Page:
    viewport: Any = {"width": _WIDTH, "height": _HEIGHT} if compact else {"width": width, "height": 860}
    page = browser.new_page(viewport=viewport, color_scheme=scheme, reduced_motion="reduce", device_scale_factor=1)
    page.set_default_timeout(2 * WAIT)
    page.goto(f"{url}?workload={WEB}")
    if compact:  # the map alone, as the frame of an animation
        hidden = ".top, .tabs, .bar, .panel, .explanation { display: none !important }"
        layout = "main { padding: 10px !important } .map-layout { display: block !important }"
        columns = ".domains { grid-template-columns: repeat(3, 1fr) !important; gap: 8px !important }"
        columns += ".nodes { grid-template-columns: repeat(3, 1fr) !important; gap: 5px !important }"
        columns += ".node { min-height: 44px; padding: 9px 6px } .node p { display: none } .map-main { min-height: 0 }"
        columns += ".domain { padding: 12px } .domains { margin: 0 }"
        page.evaluate(_STYLE, hidden + layout + columns)
    return page


def _play(sides: list[Recording], browser: Browser) -> None:
    """Take both labs through the story; pictures are taken of the one with Trimtab."""
    for side in sides:
        side.step()
        side.lab.kubectl("create", "deployment", "web", "--image=example.com/web:1", "--replicas=20")
    _record(sides, 20)
    for side in sides:
        _press(side.lab, "add-zone", {"zone": "zone-c", "nodes": 12})
        side.page.wait_for_selector("[data-domain='zone-c'] .node:nth-child(12):not(.down)")
    time.sleep(_AGE)
    for side in sides:
        side.step()
        side.lab.kubectl("scale", "deployment/web", "--replicas=30")
    _record(sides, 30)
    _pictures(browser, sides[1].lab)
    for side in sides:
        side.step()
        side.lab.kubectl("scale", "deployment/web", "--replicas=20")
    _record(sides, 20)
    for side in sides:
        print(f"{side.title}: {_left(side.page)}")  # noqa: T201 - for people
    _results(browser, sides[1].lab)


def _press(lab: Lab, action: str, body: Any) -> None:
    """Press a button of the lab: a request as the page sends it."""
    origin = lab.url.rstrip("/")
    request = urllib.request.Request(  # noqa: S310 - our own address
        f"{lab.url}api/lab/{action}", json.dumps(body).encode(), {"Origin": origin, "Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60):  # noqa: S310 - as above
        pass


def _record(sides: list[Recording], count: int) -> None:
    """Take frames until both sides show so many ready pods and no others, and one more."""
    deadline = time.monotonic() + 60
    while True:
        for side in sides:
            side.frame()
        if all(side.page.evaluate(f"({READY})({count}) && ({ALL_PODS})({count})") for side in sides):
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"the labs do not show {count} pods")
        time.sleep(_FRAME)
    time.sleep(_FRAME)
    for side in sides:
        side.frame()


def _pictures(browser: Browser, lab: Lab) -> None:
    """The map with a plan, light and dark, and on a phone."""
    for scheme in ("light", "dark"):
        page = _page(browser, lab.url, scheme=scheme)
        page.wait_for_function(READY, arg=30)
        page.locator("#replicas").fill("20")
        page.wait_for_selector(PLANNED, state="attached")
        page.locator(".pod[data-goes]").first.focus()
        page.wait_for_function("() => document.getElementById('explanation').textContent.includes(' goes ')")
        page.screenshot(path=FOLDER / f"map-{scheme}.png")
        page.close()
    phone = _page(browser, lab.url, width=390)
    phone.wait_for_function(READY, arg=30)
    phone.locator("#replicas").fill("20")
    phone.wait_for_selector(PLANNED, state="attached")
    phone.screenshot(path=FOLDER / "map-phone.png")
    phone.close()


def _results(browser: Browser, lab: Lab) -> None:
    """The tables after the scale-down."""
    page = _page(browser, lab.url)
    for tab in ("decisions", "workloads", "lab", "topologies"):
        if tab == "workloads":
            lab.kubectl("apply", "-f", str(SUBSETS))
            lab.kubectl("scale", "deployment/shop", "--replicas=10")
        page.locator(f'[data-tab="{tab}"]').click()
        page.wait_for_selector(f"#{tab}:not([hidden])")
        if tab == "lab":
            page.locator("#lab-workload").select_option(WEB)
            page.locator("#lab-replicas").fill("12")
            page.locator('[data-action="scale"]').click()
        page.wait_for_selector(SHOWN[tab], state="attached")
        page.wait_for_timeout(_SETTLED)
        page.screenshot(path=FOLDER / f"{tab}-light.png")
    page.close()


def _animate(sides: list[Recording], path: Path) -> None:
    """Put the sides beside one another, step by step; a side that has finished a step waits for the other."""
    captions = ["20 pods on two zones", "a third zone is added; scale to 30", "scale back to 20"]
    frames: list[Image.Image] = []
    times: list[int] = []
    for number, caption in enumerate(captions):
        steps = [side.steps[number] for side in sides]
        length = max(map(len, steps))
        for at in range(length):
            images = [step[min(at, len(step) - 1)] for step in steps]
            frames.append(_frame([side.title for side in sides], caption, images))
            times.append(_LAST if at == length - 1 else _SHOWN)
    times[-1] = _RESULT
    palette = frames[-1].quantize(64)
    drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=times, loop=0, optimize=True)


def _frame(titles: list[str], caption: str, images: list[Image.Image]) -> Image.Image:
    made = Image.new("RGB", (2 * _WIDTH + 8, _HEIGHT + _TITLE), "#f4f6f5")
    draw = ImageDraw.Draw(made)
    large, small = ImageFont.load_default(22), ImageFont.load_default(16)
    for index, (title, image) in enumerate(zip(titles, images, strict=True)):
        left = index * (_WIDTH + 8)
        draw.text((left + 14, 8), title, fill="#17211f", font=large)
        draw.text((left + 14, 38), caption, fill="#4d5b58", font=small)
        made.paste(image, (left, _TITLE))
    return made


if __name__ == "__main__":
    main()
