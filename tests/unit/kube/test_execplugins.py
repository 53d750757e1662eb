"""Exec plugins: run when they must be, believed when they answer well."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from trimtab.api import times
from trimtab.kube.clocks import SECOND
from trimtab.kube.credentials import Grant
from trimtab.kube.errors import CredentialsError
from trimtab.kube.execplugins import API_VERSIONS, ExecCredentials, Plugin
from trimtab.testing.clocks import VirtualClock

V1, V1BETA1 = API_VERSIONS

COUNTING = """
import json, os, pathlib
runs = pathlib.Path(os.environ["RUNS"])
runs.write_text((runs.read_text() if runs.exists() else "") + "x")
answer = json.loads(os.environ["ANSWER"])
answer["status"]["token"] += str(len(runs.read_text()))
print(json.dumps(answer))
"""


def answer(version: str = V1, **status: Any) -> dict[str, Any]:
    """What a program answers."""
    return {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "t", **status}}


def plugin(script: str, *, version: str = V1, env: dict[str, str] | None = None, **more: Any) -> Plugin:
    """A program in Python."""
    args = ("-c", textwrap.dedent(script))
    return Plugin(
        command=sys.executable,
        api_version=version,
        args=args,
        env=env or {},
        **({"interactive_mode": "Never"} | more),
    )


def credentials(a_plugin: Plugin, *, clock: VirtualClock | None = None, terminal: bool = False) -> ExecCredentials:
    """The credentials that it gives."""
    return ExecCredentials(a_plugin, clock or VirtualClock(), environ=os.environ, terminal=lambda: terminal)


def counting(tmp_path: Path, **status: Any) -> Plugin:
    """A plugin whose token counts its runs."""
    return plugin(COUNTING, env={"RUNS": str(tmp_path / "runs"), "ANSWER": json.dumps(answer(**status))})


@pytest.mark.parametrize("version", API_VERSIONS)
async def test_a_token(version: str) -> None:
    """Both versions have the same format."""
    script = f"print({json.dumps(answer(version))!r})"
    assert await credentials(plugin(script, version=version)).grant() == Grant("t")


async def test_a_certificate() -> None:
    """A certificate comes with its key."""
    reply = answer(token="", clientCertificateData="c\n", clientKeyData="k\n")
    assert await credentials(plugin(f"print({json.dumps(reply)!r})")).grant() == Grant("", b"c", b"k")


async def test_a_plugin_runs_once_until_its_credentials_expire(tmp_path: Path) -> None:
    """And then again."""
    clock = VirtualClock()
    expires = times.format_time(clock.now() + 60 * SECOND)
    source = credentials(counting(tmp_path, expirationTimestamp=expires), clock=clock)
    assert [(await source.grant()).token for _ in range(3)] == ["t1", "t1", "t1"]
    await clock.advance(60)
    assert (await source.grant()).token == "t2"


async def test_a_plugin_runs_again_when_its_credentials_are_refused(tmp_path: Path) -> None:
    """Once for all requests that were refused with the same credentials."""
    source = credentials(counting(tmp_path))
    refused = await source.grant()
    assert all(await asyncio.gather(source.renew(refused), source.renew(refused)))
    assert (await source.grant()).token == "t2"


async def test_a_plugin_never_runs_twice_concurrently(tmp_path: Path) -> None:
    """It may be asking a person."""
    source = credentials(counting(tmp_path))
    grants = await asyncio.gather(*(source.grant() for _ in range(5)))
    assert {grant.token for grant in grants} == {"t1"}


async def test_a_plugin_that_returns_the_same_credentials_has_not_renewed_them() -> None:
    """Then the 401 stands."""
    source = credentials(plugin(f"print({json.dumps(answer())!r})"))
    assert not await source.renew(await source.grant())


async def test_what_a_plugin_receives() -> None:
    """Its own variables, ours, and in KUBERNETES_EXEC_INFO the cluster and whether it may ask."""
    script = """
        import json, os
        info = os.environ["KUBERNETES_EXEC_INFO"] + "|" + os.environ["MODE"] + "|" + str("PATH" in os.environ)
        print(json.dumps({"apiVersion": "%s", "kind": "ExecCredential", "status": {"token": info}}))
    """
    cluster = {"server": "https://x", "config": {"a": 1}}
    source = credentials(plugin(script % V1, env={"MODE": "test"}, cluster=cluster))
    info, mode, inherited = (await source.grant()).token.split("|")
    assert json.loads(info) == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {"interactive": False, "cluster": cluster},
    }
    assert (mode, inherited) == ("test", "True")


@pytest.mark.parametrize(
    ("mode", "terminal", "want"),
    [
        pytest.param("Never", True, False, id="never, even if there is one"),
        pytest.param("IfAvailable", True, True, id="if there is one"),
        pytest.param("IfAvailable", False, False, id="not if there is none"),
        pytest.param("Always", True, True, id="always"),
    ],
)
async def test_whether_a_plugin_is_interactive(mode: str, terminal: bool, want: bool) -> None:
    """The mode and the terminal decide together."""
    script = """
        import json, os
        spec = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["spec"]
        print(json.dumps({"apiVersion": "%s", "kind": "ExecCredential", "status": {"token": str(spec["interactive"])}}))
    """
    source = credentials(plugin(script % V1, interactive_mode=mode), terminal=terminal)
    assert (await source.grant()).token == str(want)


async def test_an_interactive_plugin_needs_a_terminal() -> None:
    """It is not even started without."""
    with pytest.raises(CredentialsError, match=r"needs a terminal .*, but there is none"):
        await credentials(plugin("raise SystemExit(1)", interactive_mode="Always")).grant()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param("raise SystemExit(3)", "failed with exit code 3", id="it fails"),
        pytest.param("print('hunter2')", "is not an ExecCredential", id="no JSON"),
        pytest.param("print('[\"hunter2\"]')", "is not an ExecCredential", id="another JSON"),
        pytest.param(
            f"print({json.dumps(answer(V1BETA1, token='hunter2'))!r})",
            "returned apiVersion .*v1beta1, not .*v1",
            id="v1beta1",
        ),
        pytest.param(f"print({json.dumps(answer(token=''))!r})", "neither a token nor a certificate", id="nothing"),
        pytest.param(
            f"print({json.dumps({'apiVersion': V1, 'kind': 'ExecCredential'})!r})", "neither a token", id="no status"
        ),
        pytest.param(
            f"print({json.dumps(answer(clientKeyData='hunter2'))!r})",
            "only one of certificate and key",
            id="half a pair",
        ),
        pytest.param(
            f"print({json.dumps(answer(expirationTimestamp='soon'))!r})", "expirationTimestamp", id="an odd expiry"
        ),
    ],
)
async def test_invalid_output_of_a_plugin(script: str, why: str) -> None:
    """Each error names the failure, and none shows the plugin's output."""
    with pytest.raises(CredentialsError, match=why) as caught:
        await credentials(plugin(script)).grant()
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None or "hunter2" not in str(caught.value.__cause__)


async def test_a_missing_plugin_shows_the_install_hint() -> None:
    """The kubeconfig says where to get it."""
    missing = Plugin("no-such-program-anywhere", V1, interactive_mode="Never", install_hint="get it at example.com")
    with pytest.raises(CredentialsError, match=r"is not installed(.|\n)*get it at example\.com"):
        await credentials(missing).grant()


async def test_a_hanging_plugin_is_killed() -> None:
    """Credentials must not hold everything up for ever."""
    clock = VirtualClock()
    task = asyncio.create_task(credentials(plugin("import time; time.sleep(3600)"), clock=clock).grant())
    while not clock.sleepers:  # until the program runs and is being waited for
        await asyncio.sleep(0)
    await clock.advance(60)
    with pytest.raises(CredentialsError, match="did not finish within 60 s"):
        await task
