"""The chart: well-formed, complete, and with the right numbers."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.lab.scenarios.outcomes import history, outcome, record
from trimtab_lab.scenarios import charts
from trimtab_lab.scenarios.charts import Axis, Lane
from trimtab_lab.scenarios.runner import Outcome
from trimtab_lab.scenarios.timelines import Timeline

SVG = "{http://www.w3.org/2000/svg}"


def drawn(seen: Outcome, key: str = "zone") -> ET.Element:
    """The chart, parsed."""
    return ET.fromstring(charts.draw(seen, key))  # noqa: S314 - our own text


def group(root: ET.Element, name: str) -> ET.Element:
    """The group of that class."""
    return next(each for each in root.iter(f"{SVG}g") if each.get("class") == name)


def texts(element: ET.Element) -> list[str]:
    """All that is written in it."""
    return ["".join(each.itertext()) for each in element.iter(f"{SVG}text")]


def area(path: str) -> float:
    """How much a path of rectangles covers."""
    boxes = re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)H([\d.]+)V[\d.]+Z", path)
    return sum((float(right) - float(left)) * (float(floor) - float(top)) for left, floor, top, right in boxes)


SEEN = outcome(
    record(1, "fill", zone_a=1, zone_b=1),
    record(2, "shrink", zone_a=1, zone_b=0),
    timeline=history(
        ("p", "zone-a", "starting"),
        ("p", "zone-a", "ready"),
        ("q", "zone-b", "ready"),
        ("q", "zone-b", "leaving"),
        ("q", "zone-b", "gone"),
        steps=(0.0, 3.0),
    ),
)


def test_each_domain_has_a_lane_and_so_has_the_skew() -> None:
    """In the order of their names, with a label each."""
    root = drawn(SEEN)
    lanes = [lane for lane in root.iter(f"{SVG}g") if lane.get("class") == "lane"]
    assert [lane.get("data-domain") or lane.get("data-skew") for lane in lanes] == ["zone-a", "zone-b", "zone"]
    labels = [label.text for label in root.iter(f"{SVG}text") if label.get("class") == "label"]
    assert labels == ["zone-a", "zone-b", "skew"]


def test_a_column_of_numbers_is_a_distribution() -> None:
    """At the end of each step: each domain, then the skew."""
    assert texts(group(drawn(SEEN), "numbers")) == ["1", "1", "0", "1", "0", "1"]


def test_steps_are_marked_and_listed() -> None:
    """With numbers, times, and what came of each."""
    root = drawn(SEEN)
    assert texts(group(root, "marks")) == ["1", "0.0 s", "2", "3.0 s", "5.0 s"]
    assert texts(group(root, "steps")) == ["1", "fill (1.0 s) → 1/1", "2", "shrink (1.0 s) → 1/0"]


def test_a_legend_says_what_colours_mean() -> None:
    """One entry for each that is used."""
    legend = group(drawn(SEEN), "legend")
    assert texts(legend) == ["ready", "not ready", "terminating", "skew"]
    assert [box.get("class") for box in legend.iter(f"{SVG}rect")] == ["ready", "starting", "leaving", "skew"]


def test_colours_are_attributes_and_a_dark_palette_replaces_them() -> None:
    """Viewers without style sheets or variables show the light palette; what has a colour has a dark one too."""
    root = drawn(SEEN)
    style = root.findtext(f"{SVG}style") or ""
    assert "var(" not in style
    assert style.strip().startswith("@media (prefers-color-scheme: dark)")
    for element in root.iter():
        for attribute in {"fill", "stroke"} & element.attrib.keys():
            assert re.fullmatch("#[0-9a-f]{6}", element.attrib[attribute])
            names = [f".{name}" for name in element.get("class", "").split()] + [element.tag.removeprefix(SVG)]
            assert any(f"  {name} {{ {attribute}: #" in style for name in names)


@pytest.mark.parametrize("tag", ["text", "rect", "path", "circle", "line"])
def test_every_shape_has_a_colour_of_its_own(tag: str) -> None:
    """Without one, a viewer would draw it black."""
    shapes = list(drawn(SEEN).iter(f"{SVG}{tag}"))
    assert shapes
    assert all({"fill", "stroke"} & element.attrib.keys() for element in shapes)


def test_a_lane_shows_each_state_for_as_long_as_it_lasted() -> None:
    """Pod q was ready for one second and terminating for another, on scales of their own steps."""
    root = drawn(SEEN)
    lane = next(each for each in root.iter(f"{SVG}g") if each.get("data-domain") == "zone-b")
    areas = {path.get("class"): area(path.get("d") or "") for path in lane.iter(f"{SVG}path")}
    assert areas["ready"] > 0
    assert areas["leaving"] > 0
    assert areas["starting"] == 0


def test_a_domain_that_came_later_begins_later() -> None:
    """Its band starts where it was born, not at the left."""
    root = drawn(SEEN)
    bands = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "band"]
    first, second, skew = (float(box.get("x") or 0) for box in bands)
    assert first == skew
    assert second > first


def test_failures_are_written_and_signed() -> None:
    """Not by colour alone."""
    bad = replace(record(1, "fill", zone_a=1), failures=("zone zone-a has 1 pods, expected 2",))
    steps = group(drawn(outcome(bad, timeline=history(("p", "zone-a", "ready")))), "steps")
    assert "✗ zone zone-a has 1 pods, expected 2" in texts(steps)


def test_a_step_that_was_not_over_in_time_is_drawn_too() -> None:
    """What was seen until then is there; numbers are not."""
    late = replace(record(1, "fill"), distributions={}, failures=("not within 5 s",))
    root = drawn(outcome(late, timeline=history(("p", "zone-a", "starting"))))
    assert texts(group(root, "numbers")) == []
    assert any("not over in time" in text for text in texts(root))


def test_names_cannot_break_the_chart() -> None:
    """Titles and domains are text, whatever they hold."""
    root = drawn(outcome(record(1, "<script>&'\"", zone_a=1), timeline=history(("p", "zone-a", "ready"))))
    assert not list(root.iter(f"{SVG}script"))
    assert "<script>&'\" (1.0 s) → 1" in texts(group(root, "steps"))


def test_many_domains_have_thin_lanes_that_do_not_overlap() -> None:
    """Fifty hosts fit, one below the other, inside the picture."""
    root = drawn(outcome(record(1, "fill"), timeline=history(*[(f"p{i}", f"host-{i:02}", "ready") for i in range(50)])))
    bands = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "band"]
    edges = [(float(box.get("y") or 0), float(box.get("height") or 0)) for box in bands]
    assert len(edges) == 51
    assert all(y + height <= below for (y, height), (below, _) in itertools.pairwise(edges))
    assert edges[-1][0] + edges[-1][1] < float(root.get("height") or 0)


def test_nothing_at_all_can_be_drawn() -> None:
    """A story that ended before it began has a chart without lanes."""
    root = drawn(replace(outcome(record(1, "fill")), records=(), timeline=Timeline({"zone": "z"})))
    assert group(root, "legend") is not None


@settings(deadline=None)
@given(
    lengths=st.lists(st.floats(0.0, 1000.0), min_size=1, max_size=10),
    shares=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=10),
)
def test_time_never_runs_to_the_left(lengths: list[float], shares: list[float]) -> None:
    """A later moment is drawn to the right of an earlier one, inside the axis, however long steps take."""
    times = [sum(lengths[:index]) for index in range(len(lengths) + 1)]
    axis = Axis(tuple(times), tuple(float(index * 50) for index in range(len(times))))
    positions = [axis(share * times[-1]) for share in sorted(shares)]
    assert positions == sorted(positions)
    assert 0.0 <= positions[0] <= positions[-1] <= axis.positions[-1]


@pytest.mark.parametrize("count", [0, 5, 10])
def test_a_lane_is_to_scale(count: int) -> None:
    """Twice as many pods reach twice as high."""
    lane = Lane(top=100.0, height=44.0, most=10)
    assert lane.bottom - lane.level(count) == pytest.approx(4.0 * count)
