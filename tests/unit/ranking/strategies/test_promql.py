"""Queries of policies: what may read the policy's namespace, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.errors import InvalidError
from trimtab.ranking.strategies import promql

NS = 'namespace="$namespace"'
ALLOWED = [
    f"jobs{{{NS}}}",
    f'{{{NS}, __name__="jobs"}}',
    f"sum by (pod) (rate(http_requests_total{{{NS}, pod=~\"$pods\", code!~'5..'}}[5m]))",
    f"sum(rate(x{{{NS}}}[5m])) by (pod)",
    f"sum(a{{{NS}}}) by (pod) and sum(b{{{NS}}}) by (pod) > 1 or c{{{NS}}}",
    f"sum without (instance) (x{{{NS}}} offset 5m)",
    f"max_over_time(job:queue:sum{{{NS}}}[1h:1m])",
    f"a{{{NS}}} / on (pod) group_left (node) b{{{NS}}}",
    f"a{{{NS}}} and on (pod) b{{{NS}}} or ignoring (pod) c{{{NS}}} unless d{{{NS}}}",
    f"a{{{NS}}} and (b{{{NS}}} > 1) unless (c{{{NS}}})",
    f"a{{{NS}}} * on () sum by (pod, node) (b{{{NS}}})",
    f"a{{{NS}}} > bool 1.5e3",
    f"a{{{NS}}} @ start() - a{{{NS}}} @ 1600000000",
    f"topk(3, a{{{NS}}}) * -1 ^ Inf",
    f"sum by (pod) (jobs{{{NS}}}) or 0 * group by (pod) (kube_pod_info{{{NS}}})",
    f"quantile_over_time(0.9, a{{{NS},}}[10m])  # a comment: up{{}}",
    f'label_replace(a{{{NS}}}, "pod", "$1", "exported_pod", "(.*)")',
    "jobs{namespace='$namespace'}",
    "jobs{namespace=`$namespace`}",
    f"offset{{{NS}}} + sum{{{NS}}}",
    f"jobs{{{NS}}}".ljust(promql.LONGEST),
    f"a{{{NS}}}[5m]",
]
"""What Prometheus understands, or explains; the last one is no instant vector."""
REFUSED = [
    "up",
    "sum(up)",
    "sum",
    "offset",
    "1",
    "vector(1)",
    "jobs{}",
    'jobs{pod=~"$pods"}',
    'jobs{namespace="other"}',
    'jobs{namespace=~"$namespace"}',
    'jobs{namespace!="$namespace"}',
    'jobs{namespace="$namespace.*"}',
    'jobs{exported_namespace="$namespace"}',
    '{__name__=~".+"}',
    f"jobs{{{NS}}} + on () group_left secret",
    f"jobs{{{NS}}} and on () (secret > 5)",
    f"jobs{{{NS}}} * on () group_left () sum(secret)",
    f"jobs{{{NS}}} + offset",
    f"jobs{{{NS}}} + bool",
    f"jobs{{{NS}}} > bool secret",
    f"jobs{{{NS}}} == and",
    f"jobs{{{NS}}} - by",
    f"jobs{{{NS}}} + on",
    f"jobs{{{NS}}} + start",
    f"jobs{{{NS}}} and by",
    f"jobs{{{NS}}} + on (pod) and",
    f"jobs{{{NS}}} + on (pod) offset",
    f"jobs{{{NS}}} * on () group_left () or",
    f"sum by (pod) unless (jobs{{{NS}}})",
    f"jobs{{{NS}}} @ secret",
    f"(group_left) + jobs{{{NS}}}",
    f'jobs{{{NS} or namespace="other"}}',
    f'jobs{{{NS} pod="x"}}',
    f"jobs{{{NS}, pod=5}}",
    f'jobs{{{NS}, pod>"x"}}',
    f"jobs{{{NS}}} secret",
    f"jobs{{{NS}}} + by (secret)",
    f"jobs{{{NS}}} by (secret)",
    f"jobs{{{NS}}} + start()",
    f"WITH (x = secret) jobs{{{NS}}} + x",
    f"info(jobs{{{NS}}})",
    f"sum by (pod, (secret)) (jobs{{{NS}}})",
    f"sum by (pod (jobs{{{NS}}})",
    f"jobs{{{NS}}} $namespace",
    f"jobs{{{NS}}} # \n + secret",
    f"jobs{{{NS}}} # \r + secret",
    f"jobs{{{NS}}} + 'a' + secret",
    f'"\\"" + secret + "{{{NS}}}"',
    f"`\\` + secret + `{{{NS}}}`",
    f"jobs{{{NS}",
    "jobs{namespace=$namespace}",
    f"jobs[{{{NS}}}]",
    f"jobs{{{NS}}}" + " " * promql.LONGEST,
    "",
]
"""What would read other series, or is not understood."""


@pytest.mark.parametrize("query", ALLOWED)
def test_a_query_whose_selectors_are_restricted_is_allowed(query: str) -> None:
    """However it computes."""
    promql.check(query)


@pytest.mark.parametrize("query", REFUSED)
def test_a_query_that_may_read_more_is_refused(query: str) -> None:
    """Bare names, keywords in the place of names, selectors without the matcher, and what is not understood."""
    with pytest.raises(InvalidError):
        promql.check(query)


def test_a_refusal_says_what_to_write() -> None:
    """With the selector in question."""
    with pytest.raises(InvalidError) as error:
        promql.check(f"jobs{{{NS}}} > secret")
    assert error.value.reason == 'secret is not restricted to the namespace; write secret{namespace="$namespace"}'


def test_placeholders_are_replaced() -> None:
    """Names of pods may have dots, which a regular expression would take for any character."""
    query = 'jobs{namespace="$namespace", pod=~"$pods"}'
    assert promql.expand(query, "shop", ["web.b", "web-a"]) == 'jobs{namespace="shop", pod=~"web-a|web[.]b"}'


PIECES = [
    *("secret", "jobs", "sum", "by", "on", "offset", "and", "bool", "start", "inf", "group_left", "rate"),
    *("(", ")", "{", "}", "[5m]", ",", "=", "==", ">", "+", "@", "5", "5m", '"x"', "'", '"', "`", "\\", "#", "\n"),
    f"{{{NS}}}",
    NS,
]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_no_sequence_of_words_smuggles_a_metric_through(pieces: list[str]) -> None:
    """The metric `secret` passes only where the matcher follows it, in a string, as a label, or as a function."""
    query = " ".join(pieces)
    try:
        promql.check(query)
    except InvalidError:
        return
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`[^`]*`|#[^\r\n]*', "", query)
    for found in re.finditer(r"secret", bare):
        before, after = bare[: found.start()], bare[found.end() :].lstrip()
        in_list = re.search(r"\b(by|on|group_left)\s*\([^()]*$", before)
        in_braces = before.rfind("{") > before.rfind("}")
        assert after.startswith(("{", "(")) or re.match(r"(?i)by\b", after) or in_list or in_braces


def test_info_is_refused_by_its_own_reason() -> None:
    """A matcher would not help: it reads series that the query does not select."""
    with pytest.raises(InvalidError, match="info is not allowed"):
        promql.check(f"info(jobs{{{NS}}})")


@pytest.mark.parametrize(
    "query", [f'{{"jobs", {NS}}}', f'{{{NS}, "jobs"}}', f'{{"app.kubernetes.io/name"="web", {NS}}}'], ids=str
)
def test_names_may_be_quoted(query: str) -> None:
    """Those of metrics, which have no value, and those of labels."""
    promql.check(query)
    with pytest.raises(InvalidError, match="not restricted to the namespace"):
        promql.check(query.replace(NS, 'pod="x"'))
