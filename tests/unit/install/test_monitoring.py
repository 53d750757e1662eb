"""Alerts: every metric and label that they name exists, promtool accepts them, and each fires when it should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.deploy.test_grafana import BY, LABEL, NAME, SELECTOR, series
from tests.unit.kube.fakes import FakeServer
from trimtab.admission.metrics import ReviewOutcome
from trimtab.install import manifests, monitoring, removal
from trimtab.install.options import Options
from trimtab.kube.client import Client
from trimtab.testing.clocks import VirtualClock

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="this machine has no promtool (Debian: prometheus)")
EXPRESSIONS = {alert.name: alert.expression for alert in monitoring.ALERTS}
TARGET_LABELS = {"pod", "namespace", "instance"}
"""Labels that a PodMonitor gives to every series."""


def test_every_metric_and_label_of_an_alert_exists() -> None:
    """An alert about a metric that does not exist never fires."""
    known = series()
    for name, expression in EXPRESSIONS.items():
        named = NAME.findall(expression)
        assert named, name
        assert set(named) <= known.keys(), name
        wanted = {(metric, label) for metric, labels in SELECTOR.findall(expression) for label in LABEL.findall(labels)}
        wanted |= {(metric, label) for by in BY.findall(expression) for label in by.split(", ") for metric in named}
        assert {(metric, label) for metric, label in wanted if label not in known[metric] | TARGET_LABELS} == set()


def test_the_outcomes_of_undecided_reviews_exist() -> None:
    """All outcomes of reviews that were admitted without a decision."""
    (outcomes,) = re.findall(r'outcome=~"(.*?)"', EXPRESSIONS["TrimtabReviewsLate"])
    decided = {ReviewOutcome.ALLOWED, ReviewOutcome.DENIED, ReviewOutcome.MALFORMED}
    assert set(outcomes.split("|")) == {each.value for each in set(ReviewOutcome) - decided}


def test_the_objects_are_printed_only_if_asked_for() -> None:
    """A cluster without the Prometheus operator would refuse them."""
    kinds = {"PodMonitor", "PrometheusRule"}
    assert not kinds & {each["kind"] for each in manifests.everything(Options())}
    printed = {each["kind"]: each for each in manifests.everything(Options(monitoring=True))}
    assert kinds <= printed.keys()
    assert kinds <= removal.PLURALS.keys()
    assert printed["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["port"] == "serving"
    labels = printed["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert printed["PodMonitor"]["spec"]["selector"]["matchLabels"].items() <= labels.items()


async def test_an_uninstallation_removes_them_too() -> None:
    """Whether they were printed is not known then."""
    clock = VirtualClock()
    options = await removal.installed(Client(FakeServer(clock), clock=clock), "trimtab-system")
    assert options.monitoring


FIRING: dict[str, tuple[str, str]] = {
    "TrimtabScaleDownMissed": (
        'trimtab_scaledown_results_total{mode="enforce", result="missed", cause="late"}',
        "0x60 1x90",
    ),
    "TrimtabReviewsLate": ('trimtab_webhook_reviews_total{hook="scale", outcome="late"}', "0+5x150"),
    "TrimtabFallbacks": ('trimtab_scaledown_fallbacks_total{reason="late"}', "0+1x150"),
    "TrimtabCertificateExpiring": ("trimtab_webhook_certificate_expiry_timestamp_seconds", "2592000x150"),
    "TrimtabNoLeader": ('trimtab_leader{lease="trimtab-webhooks", pod="a"}', "0x150"),
    "TrimtabNotReady": ('trimtab_ready{pod="a"}', "0x150"),
    "TrimtabAbsent": ('trimtab_leader{lease="other"}', "1x150"),
    "TrimtabEventLoopBlocked": ('trimtab_event_loop_lag_seconds_count{pod="a"}', "0+610x150"),
    "TrimtabObjectsSkipped": ('trimtab_unreadable_objects_total{kind="Pod"}', "0x60 1x90"),
}
"""A series that makes each alert fire, beside the quiet ones: a value a minute, for two hours and a half."""

QUIET: dict[str, tuple[str, str]] = {
    "TrimtabScaleDownMissed": (
        'trimtab_scaledown_results_total{mode="observe", result="missed", cause="late"}',
        "0+1x150",
    ),
    "TrimtabReviewsLate": ('trimtab_webhook_reviews_total{hook="scale", outcome="allowed"}', "0+100x150"),
    "TrimtabFallbacks": ('trimtab_scaledown_fallbacks_total{reason="unranked"}', "3x150"),
    "TrimtabCertificateExpiring": ("trimtab_webhook_certificate_expiry_timestamp_seconds", "31536000x150"),
    "TrimtabNoLeader": ('trimtab_leader{lease="trimtab-webhooks", pod="b"}', "1x150"),
    "TrimtabNotReady": ('trimtab_ready{pod="b"}', "1x150"),
    "TrimtabAbsent": ('trimtab_ready{pod="b"}', "1x150"),
    "TrimtabEventLoopBlocked": ('trimtab_event_loop_lag_seconds_bucket{pod="a", le="1.0"}', "0+600x150"),
    "TrimtabObjectsSkipped": ('trimtab_unreadable_objects_total{kind="Node"}', "2x150"),
}
"""A series by which none fires."""

REPLACING = {"TrimtabCertificateExpiring", "TrimtabNoLeader", "TrimtabAbsent"}
"""Alerts about the best of all series: the quiet one must not be there."""


def is_firing(name: str, inputs: list[tuple[str, str]], folder: Path) -> bool:
    """Whether an alert fires at the end of these series, by promtool's own evaluation."""
    (folder / "rules.json").write_text(json.dumps({"groups": monitoring.groups()}))
    case: dict[str, Any] = {
        "rule_files": ["rules.json"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": each, "values": values} for each, values in inputs],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)',
                        "eval_time": "80m",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    }
                ],
            }
        ],
    }
    (folder / "test.yaml").write_text(yaml.safe_dump(case))
    assert PROMTOOL is not None
    done = subprocess.run(  # noqa: S603 - Prometheus' own tool, with files of this test
        [PROMTOOL, "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True, check=False
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0 or "got:" in output, output
    return done.returncode == 0


def test_each_alert_has_series_that_try_it() -> None:
    """One that makes it fire, and one that does not."""
    assert FIRING.keys() == QUIET.keys() == EXPRESSIONS.keys()


@needs_promtool
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_alert_fires_when_it_should_and_only_then(name: str, tmp_path: Path) -> None:
    """As Prometheus evaluates it."""
    quiet = [] if name in REPLACING else [QUIET[name]]
    assert is_firing(name, [FIRING[name], *quiet], tmp_path)
    others = [QUIET[name]] + ([FIRING[name]] if name in {"TrimtabNoLeader", "TrimtabAbsent"} else [])
    assert not is_firing(name, others, tmp_path)


@needs_promtool
def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    """Syntax, templates and duplicates."""
    (tmp_path / "rules.json").write_text(json.dumps({"groups": monitoring.groups()}))
    assert PROMTOOL is not None
    done = subprocess.run(  # noqa: S603 - as above
        [PROMTOOL, "check", "rules", "rules.json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(EXPRESSIONS)} rules found" in done.stdout
