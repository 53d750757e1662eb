"""A chart of a run (SVG): pods in each domain, and the skew, over time and step by step.

**Content.** One lane for each domain, from when it exists: pods that are ready, starting and terminating, on one scale
for all lanes. Lanes instead of lines, because lines of level domains would hide one another. Below them a lane with the
skew. The end of each step has the recorded numbers, so that a column of numbers reads as a distribution: 10, 10, 0.

**Time.** A step of half a second may decide everything, and one of a minute nothing. So each step has its own scale: a
longer step is wider, but far less than in proportion, and the seconds are printed at its edges.

**Colours** are those of `chartstyle`, light or dark. Nothing depends on colour alone: domains have lanes, steps have
numbers, failures have a sign.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from trimtab_lab.scenarios import chartstyle
from trimtab_lab.scenarios.runner import ALL, Outcome, StepRecord
from trimtab_lab.scenarios.timelines import Moment, Tally, moments

LAYERS = (("ready", "ready"), ("starting", "starting"), ("terminating", "leaving"))
"""The layers of a lane, from the bottom: the field of `Tally`, and its class."""

_MARGIN = 24
_LEAST_WIDTH = 640.0
_STEP_WIDTH = 56.0
_STEP_GROWTH = 42.0
_WIDEST_STEP = 320.0
_LANES_HEIGHT = 240.0
_LANE_MOST, _LANE_LEAST = 64.0, 18.0
_SKEW_HEIGHT = 56.0
_GAP = 8.0
_LETTER = 7.0
_LONGEST_LABEL = 28
_LINE = 19.0


@dataclass(frozen=True, slots=True)
class Axis:
    """The horizontal axis: time, with a section for each step."""

    times: tuple[float, ...]
    positions: tuple[float, ...]

    def __call__(self, at: float) -> float:
        """The position of a moment; moments before the first step are at its beginning."""
        if at <= self.times[0]:
            return self.positions[0]
        for index in range(1, len(self.times)):
            if at <= self.times[index]:
                start, end = self.times[index - 1], self.times[index]
                share = (at - start) / (end - start) if end > start else 1.0
                return self.positions[index - 1] + share * (self.positions[index] - self.positions[index - 1])
        return self.positions[-1]


@dataclass(frozen=True, slots=True)
class Lane:
    """A strip of the chart: its position, and the count at its full height."""

    top: float
    height: float
    most: int

    @property
    def bottom(self) -> float:
        """The position of zero."""
        return self.top + self.height

    def level(self, count: float) -> float:
        """The position of a count."""
        return self.bottom - count / self.most * (self.height - 4)


def draw(outcome: Outcome, key: str) -> str:
    """Draw the chart of one of the story's topology keys."""
    history = moments(outcome.timeline, key)
    domains = sorted({domain for moment in history for domain in moment.tallies})
    labels = [_cut(domain, _LONGEST_LABEL) for domain in domains]
    left = _MARGIN + _LETTER * max([len(label) for label in labels] + [len("skew")]) + 12
    axis = _axis(outcome, left)
    lanes = _lanes(domains, history, top=104.0)
    last = lanes[-1].bottom if lanes else 104.0
    skew = Lane(last + 2 * _GAP, _SKEW_HEIGHT, max([moment.skew for moment in history] + [1]))
    width = axis.positions[-1] + _MARGIN
    listed = skew.bottom + 48
    height = listed + _LINE * _lines(outcome.records) + _MARGIN / 2
    root = _root(outcome, key, width, height)
    _head(root, outcome, key, width)
    for domain, label, lane in zip(domains, labels, lanes, strict=True):
        group = _add(root, "g", {"class": "lane", "data-domain": domain})
        tallies = [(moment.at, moment.tallies[domain]) for moment in history if domain in moment.tallies]
        _lane(group, label, domain, lane, axis, since=tallies[0][0])
        _stack(group, tallies, lane, axis)
    group = _add(root, "g", {"class": "lane", "data-skew": key})
    _lane(group, "skew", f"skew by {key}", skew, axis)
    _add(group, "path", {"class": "skew", "d": _area([(m.at, 0, m.skew) for m in history], skew, axis)})
    _marks(root, outcome, axis, skew)
    _numbers(root, outcome, key, dict(zip(domains, lanes, strict=True)), skew, axis)
    _list(root, outcome, key, listed)
    return ET.tostring(root, encoding="unicode") + "\n"


# Positions.


def _axis(outcome: Outcome, left: float) -> Axis:
    starts = [mark.at for mark in outcome.timeline.marks] or [0.0]
    times = [*starts, max(outcome.timeline.end, starts[-1])]
    widths = [
        min(_WIDEST_STEP, _STEP_WIDTH + _STEP_GROWTH * math.sqrt(end - start))
        for start, end in itertools.pairwise(times)
    ]
    stretch = max(1.0, _LEAST_WIDTH / sum(widths))
    positions = [left]
    for width in widths:
        positions.append(positions[-1] + width * stretch)
    return Axis(tuple(times), tuple(positions))


def _lanes(domains: Sequence[str], history: Sequence[Moment], top: float) -> list[Lane]:
    height = min(_LANE_MOST, max(_LANE_LEAST, _LANES_HEIGHT / max(1, len(domains))))
    most = max((tally.pods + tally.terminating for m in history for tally in m.tallies.values()), default=1)
    return [Lane(top + index * (height + _GAP), height, max(1, most)) for index in range(len(domains))]


def _lines(records: Sequence[StepRecord]) -> int:
    return sum(1 + len(record.failures) for record in records)


# Drawing.


def _root(outcome: Outcome, key: str, width: float, height: float) -> ET.Element:
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {_n(width)} {_n(height)}",
            "width": _n(width),
            "height": _n(height),
            "role": "img",
            "aria-labelledby": "title description",
            "font-family": chartstyle.FONT,
            "font-size": "12",
        },
    )
    _add(root, "title", {"id": "title"}, f"{outcome.story.name}: pods by {key}")
    _add(root, "desc", {"id": "description"}, _description(outcome, key))
    _add(root, "style", {}, chartstyle.style_sheet())
    _add(root, "rect", {"class": "surface", "width": "100%", "height": "100%"})
    return root


def _description(outcome: Outcome, key: str) -> str:
    steps = [f"{record.number}. {record.title}: {_outcome(record, key)}" for record in outcome.records]
    return "Pods in each domain after each step. " + "; ".join(steps)


def _head(root: ET.Element, outcome: Outcome, key: str, width: float) -> None:
    _text(root, _MARGIN, 34, outcome.story.name, "title")
    _text(root, _MARGIN, 54, f"pods by {key} ({outcome.story.topology[key]})", "quiet")
    legend = [("ready", "ready"), ("not ready", "starting"), ("terminating", "leaving"), ("skew", "skew")]
    spans = [26 + _LETTER * len(name) for name, _ in legend]
    x = width - _MARGIN - sum(spans)
    group = _add(root, "g", {"class": "legend"})
    for (name, style), span in zip(legend, spans, strict=True):
        _add(group, "rect", {"class": style, "x": _n(x), "y": "24", "width": "12", "height": "12", "rx": "2"})
        _text(group, x + 17, 34, name)
        x += span


def _lane(group: ET.Element, label: str, full: str, lane: Lane, axis: Axis, since: float = 0.0) -> None:
    left, right = axis(since), axis.positions[-1]
    size = {"x": _n(left), "y": _n(lane.top), "width": _n(right - left), "height": _n(lane.height)}
    _add(group, "rect", {"class": "band", **size})
    line = {"x1": _n(left), "x2": _n(right), "y1": _n(lane.bottom), "y2": _n(lane.bottom)}
    _add(group, "line", {"class": "grid", **line})
    text = _text(group, axis.positions[0] - 10, lane.top + lane.height / 2 + 4, label, "label")
    text.set("text-anchor", "end")
    _add(text, "title", {}, full)


def _stack(group: ET.Element, tallies: Sequence[tuple[float, Tally]], lane: Lane, axis: Axis) -> None:
    """One area for each state of pods, stacked."""
    base: Callable[[Tally], int] = lambda _: 0  # noqa: E731 - grows by a layer each time
    for name, style in LAYERS:
        spans = [(at, base(tally), base(tally) + getattr(tally, name)) for at, tally in tallies]
        _add(group, "path", {"class": style, "d": _area(spans, lane, axis)})
        base = _above(base, name)


def _above(base: Callable[[Tally], int], name: str) -> Callable[[Tally], int]:
    return lambda tally: base(tally) + int(getattr(tally, name))


def _area(spans: Sequence[tuple[float, int, int]], lane: Lane, axis: Axis) -> str:
    """A rectangle for each period, from `low` to `high`; equal neighbours are merged."""
    ends = [*(axis(at) for at, _, _ in spans[1:]), axis.positions[-1]]
    pieces: list[list[float]] = []
    for (at, low, high), end in zip(spans, ends, strict=False):
        start, floor, top = axis(at), lane.level(low), lane.level(high)
        if high <= low or end <= start:
            continue
        if pieces and pieces[-1][1:] == [start, floor, top]:
            pieces[-1][1] = end
        else:
            pieces.append([start, end, floor, top])
    return " ".join(f"M{_n(a)} {_n(floor)}V{_n(top)}H{_n(b)}V{_n(floor)}Z" for a, b, floor, top in pieces)


def _marks(root: ET.Element, outcome: Outcome, axis: Axis, skew: Lane) -> None:
    """The beginnings of the steps: numbers and times."""
    failed = {record.number for record in outcome.records if record.failures}
    group = _add(root, "g", {"class": "marks"})
    for mark, x in zip(outcome.timeline.marks, axis.positions, strict=False):
        line = {"x1": _n(x), "x2": _n(x), "y1": "88", "y2": _n(skew.bottom + 6)}
        _add(group, "line", {"class": "mark", **line})
        _badge(group, x, 80, mark.number, bad=mark.number in failed)
        text = _text(group, x, skew.bottom + 20, f"{mark.at:.1f} s", "quiet small")
        text.set("text-anchor", "middle")
    end = _text(group, axis.positions[-1], skew.bottom + 20, f"{outcome.timeline.end:.1f} s", "quiet small")
    end.set("text-anchor", "middle")


def _badge(group: ET.Element, x: float, y: float, number: int, *, bad: bool) -> None:
    _add(group, "circle", {"class": "badge bad" if bad else "badge", "cx": _n(x), "cy": _n(y), "r": "9"})
    _text(group, x, y + 3.5, str(number), "badge-text")


def _numbers(root: ET.Element, outcome: Outcome, key: str, lanes: dict[str, Lane], skew: Lane, axis: Axis) -> None:
    """The recorded numbers at the end of each step."""
    group = _add(root, "g", {"class": "numbers"})
    for record, x in zip(outcome.records, axis.positions[1:], strict=False):
        distribution = record.distributions.get(ALL)
        if distribution is None:
            continue
        spread = distribution.spreads[key]
        for domain, count in spread.domains.items():
            lane = lanes.get(domain)
            if lane is not None:
                _number(group, x, lane, count)
        _number(group, x, skew, spread.skew)


def _number(group: ET.Element, x: float, lane: Lane, number: int) -> None:
    _text(group, x - 6, lane.top + lane.height / 2 + 4, str(number), "number")


def _list(root: ET.Element, outcome: Outcome, key: str, top: float) -> None:
    """The titles of the steps, with their results."""
    group = _add(root, "g", {"class": "steps"})
    y = top
    for record in outcome.records:
        _badge(group, _MARGIN + 9, y - 4, record.number, bad=bool(record.failures))
        line = _text(group, _MARGIN + 26, y, f"{record.title} ")
        detail = _add(line, "tspan", {"class": "quiet"}, f"({record.took:.1f} s)")
        detail.tail = f" → {_outcome(record, key)}"
        y += _LINE
        for failure in record.failures:
            _text(group, _MARGIN + 26, y, f"✗ {_cut(failure, 140)}", "bad-text")
            y += _LINE


def _outcome(record: StepRecord, key: str) -> str:
    distribution = record.distributions.get(ALL)
    return "not over in time" if distribution is None else str(distribution.spreads[key])


# Elements.


def _add(parent: ET.Element, tag: str, attributes: dict[str, str], text: str | None = None) -> ET.Element:
    element = ET.SubElement(parent, tag, {**chartstyle.attributes(tag, attributes.get("class", "")), **attributes})
    element.text = text
    return element


def _text(parent: ET.Element, x: float, y: float, text: str, style: str = "") -> ET.Element:
    return _add(parent, "text", {"x": _n(x), "y": _n(y), **({"class": style} if style else {})}, text)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _n(number: float) -> str:
    """A coordinate as text."""
    return f"{number:.1f}".removesuffix(".0")
