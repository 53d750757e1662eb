"""Targets that read files which people write: scenarios and kubeconfigs.

An input is a valid file with some parts replaced, and sometimes with damaged text. Parts that YAML has and JSON does
not (tags, anchors, dates, keys that are no text, other encodings) are tried on purpose.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from trimtab.api.errors import InvalidError
from trimtab.kube import kubeconfig
from trimtab.kube.credentials import StaticCredentials
from trimtab.kube.errors import ConfigError
from trimtab.kube.tls import Contexts
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.scenarios import stories

SECRET = "hunter2"
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": "https://api.example.com:6443", "proxy-url": "http://p:1"}}],
    "users": [
        {
            "name": "u",
            "user": {
                "token": SECRET,
                "as": "jane",
                "as-groups": ["g"],
                "as-user-extra": {"Dept/x": ["y"]},
            },
        },
        {"name": "v", "user": {"client-certificate-data": SECRET, "client-key-data": SECRET}},
        {
            "name": "w",
            "user": {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "./plugin",
                    "args": ["get-token"],
                    "env": [{"name": "A", "value": SECRET}],
                    "interactiveMode": "Never",
                    "provideClusterInfo": True,
                }
            },
        },
    ],
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
}
WORDS = (
    *("insecure-skip-tls-verify", "certificate-authority", "certificate-authority-data", "tls-server-name", "server"),
    *("client-certificate", "client-key", "tokenFile", "username", "password", "auth-provider", "exec", "extensions"),
    *("proxy-url", "as", "as-uid", "user", "cluster", "name", "namespace", "current-context"),
)
VALUES = (
    *("", "~", "~no-such-user/x", "/", "..", "\0", "a\0b", "u", "v", "w", "https://[", "https://[::1", "http://h:port"),
    *("https://h:99999999", "https://u:p@h", "socks5://h", "//", "LS0tLQ==", "aHVudGVyMg==", "="),
    *("50%", "<= 3", "3..1", "1e9", "9" * 5000, "zone", "web", "Deployment", "apps/v1", "\ud800", "\N{PILE OF POO}"),
)
SNIPPETS = (
    *(
        "&a [*a]",
        "!!binary aGk=",
        "!!timestamp 2026-01-01",
        "2026-99-99",
        "!!set {a, b}",
        "!!python/none x",
        "? [a]\n: b",
    ),
    *("{[a]: b}", "{1: a}", "{null: a}", "<<: *x", "<<: 3", ".nan", ".inf", "-.inf", "0o8", "0x", "1:60:60", "!!int a"),
    *("--- a\n--- b", "%YAML 9.9\n---", "[" * 500, "- " * 500, "{a: " * 500, "!!float x", "!!omap [a]", "? ? ?"),
    *("\0", "\t", "\ufeff", "\x85", "!!bool x", "!!int ''", "!!float ''", "!!timestamp x", "- !!map [a]", "*nobody"),
)


@st.composite
def texts(draw: st.DrawFn, wholes: tuple[Any, ...], words: tuple[str, ...]) -> bytes:
    """A valid file but for some parts, or with damaged text."""
    whole = copy.deepcopy(draw(st.sampled_from(wholes)))
    snippets = {f"@{number}@": each for number, each in enumerate(SNIPPETS)}
    for _ in range(draw(st.integers(0, 3))):
        _damage(draw, whole, words, tuple(snippets))
    text = yaml.safe_dump(whole, sort_keys=False, allow_unicode=True)
    for name, snippet in snippets.items():
        text = text.replace(f"'{name}'", snippet)
    if draw(st.integers(0, 4)) == 0:
        start = draw(st.integers(0, len(text)))
        part = draw(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=3)))
        text = text[:start] + part + text[start + draw(st.integers(0, 3)) :]
    encoding = draw(st.sampled_from(["utf-8"] * 8 + ["utf-16", "latin-1"]))
    return text.encode(encoding, errors="surrogatepass" if encoding.startswith("utf") else "replace")


def _damage(draw: st.DrawFn, whole: Any, words: tuple[str, ...], snippets: tuple[str, ...]) -> None:
    """Replace, add or remove one part somewhere in a tree."""
    at = whole
    for _ in range(draw(st.integers(0, 7))):
        inner = [
            each for each in (at.values() if isinstance(at, dict) else at) if isinstance(each, (dict, list)) and each
        ]
        if not inner:
            break
        at = draw(st.sampled_from(inner))
    scalars = st.one_of(
        st.sampled_from([*VALUES, *snippets, *snippets]),
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-2, 3),
        st.floats(),
        st.text(max_size=4),
        st.dates(),
        st.binary(max_size=3),
    )
    value = draw(
        st.one_of(scalars, st.lists(scalars, max_size=3), st.dictionaries(st.sampled_from(words), scalars, max_size=3))
    )
    if isinstance(at, list):
        at[draw(st.integers(0, len(at) - 1))] = value
    elif draw(st.integers(0, 4)) == 0:
        del at[draw(st.sampled_from(list(at)))]
    else:
        names = st.one_of(st.sampled_from(list(at)), st.sampled_from(words), st.sampled_from([1, None, True, 2.5]))
        at[draw(names)] = value


def check_scenario(content: bytes) -> None:
    """A file is a scenario, or refused with the field and the reason."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "story.yaml")
        path.write_bytes(content)
        try:
            stories.load(path)
        except InvalidError as error:
            assert str(path) in error.path
            assert error.reason


def check_kubeconfig(content: bytes) -> None:
    """A file leads to an API server, or is refused with a reason that shows no secret. No plugin is started."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config")
        path.write_bytes(content)
        try:
            endpoint = kubeconfig.load(
                [path], VirtualClock(), environ={"HTTPS_PROXY": "p:1", "NO_PROXY": "h:1,[::1]:2"}
            )
            if isinstance(endpoint.credentials, StaticCredentials):
                grant = asyncio.run(endpoint.credentials.grant())
                if endpoint.trust.authority is not None or grant.certificate:
                    Contexts(endpoint.trust).context(grant)
        except ConfigError as error:
            assert str(error)
            assert SECRET not in str(error), "a secret is shown"


@functools.cache
def scenarios() -> tuple[Any, ...]:
    """The scenarios that come with the lab, as plain values."""
    paths = [*stories.kubernetes_stories().values(), *stories.trimtab_stories().values()]
    return tuple(yaml.safe_load(path.read_text()) for path in paths)


def scenario_texts() -> st.SearchStrategy[bytes]:
    """Scenarios with damaged parts; names come from all of them."""
    names = sorted({name for each in scenarios() for name in _names(each)})
    return texts(scenarios(), tuple(names))


def _names(value: Any) -> set[str]:
    if isinstance(value, list):
        return {name for each in value for name in _names(each)}
    if isinstance(value, dict):
        return {str(key) for key in value} | {name for each in value.values() for name in _names(each)}
    return set()
