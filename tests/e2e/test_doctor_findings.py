"""Every finding of `trimtab doctor`, provoked on a control plane one by one, and nothing else is found.

One installation is broken and mended again and again: a finding that is still there after a repair fails the next test.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e import breakages
from tests.e2e.breakages import COMPONENTS, Breakage, Installation
from tests.e2e.processes import configuration, running
from tests.e2e.test_doctor import authorizes, doctor
from tests.lab.deployments import deployment_sandbox
from trimtab.api.complexity import MAX_DEPTH
from trimtab.doctor.rules import RULES
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.sessions import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PATIENCE = 60.0
NO_ANSWER = frozenset({"TD304", "TD401"})
"""What follows from webhooks that stand still: no answer, and no leader when that takes longer than a lease."""
OTHER_CONFIGURATION = frozenset({"TD106"})
"""What follows from a changed ConfigMap: the pods were started with another one."""


@dataclass(frozen=True, slots=True)
class Case:
    """A finding, what it says, what provokes it, and which findings may follow from the same cause."""

    id: str
    message: str
    provoke: Breakage
    follows: frozenset[str] = frozenset()
    options: tuple[str, ...] = ()
    """Options of the command instead of the namespace of the installation."""
    prefix: tuple[str, ...] = ()
    """The program that starts the command."""

    def __str__(self) -> str:
        return f"{self.id} {self.message}"


CASES = (
    Case("TD101", "there is no Deployment of Trimtab", breakages.without_deployments),
    Case("TD101", "is not installed here", breakages.unbroken, options=("--namespace", "default")),
    Case("TD102", "Trimtab", breakages.unbroken),
    Case("TD103", "it is of version 0.0.1", breakages.deployment(breakages.version_label)),
    Case("TD104", "it is scaled to 0", breakages.deployment(lambda tree: tree["spec"].update(replicas=0))),
    Case("TD104", "0 of 1 pods are ready", breakages.unready),
    Case(
        "TD105",
        "scaleDwon",
        breakages.configured(lambda tree: tree.update(scaleDwon={})),
        OTHER_CONFIGURATION,
    ),
    Case("TD105", "no process can start", breakages.without_configuration),
    Case(
        "TD106",
        "another configuration than the ConfigMap has",
        breakages.configured(lambda tree: tree.update(logs={"level": "debug"})),
    ),
    Case("TD201", "there can be no PodGroupCost", breakages.without_definition),
    Case("TD202", "it is not Trimtab's", breakages.definition(breakages.foreign)),
    Case("TD203", "its schema is not that of version", breakages.definition(breakages.describe)),
    Case("TD301", "is not registered", breakages.without_webhook),
    Case("TD302", "was changed: timeoutSeconds", breakages.webhook(lambda hook: hook.update(timeoutSeconds=1))),
    Case("TD302", "was changed: failurePolicy", breakages.webhook(lambda hook: hook.update(failurePolicy="Fail"))),
    Case("TD303", "it has no ready address", breakages.without_endpoints, NO_ANSWER),
    Case("TD304", "it does not get an answer", breakages.unreachable),
    Case("TD305", "caBundle is not that of", breakages.untrusted, NO_ANSWER),
    Case("TD306", "it does not exist", breakages.without_certificate, NO_ANSWER),
    Case("TD306", "the certificate expires in 19 days", breakages.expiring, NO_ANSWER | {"TD305"}),
    Case("TD401", "the lease does not exist", breakages.without_leader),
    Case("TD402", "behind the API server's", breakages.slow_clock),
    Case("TD403", "ahead of the API server's", breakages.unbroken, prefix=("faketime", "-f", "+120s")),
    Case("TD501", "create pods/eviction", breakages.without_permissions),
    Case("TD601", "that Trimtab did not write", breakages.costly_pod),
    Case("TD602", "none of them counts", breakages.rivals),
    Case("TD603", "nested", breakages.policy("web", name="Balance", args=breakages.nested(MAX_DEPTH + 1))),
    Case(
        "TD604",
        "scaleDown.enabled is false",
        breakages.configured(lambda tree: tree["scaleDown"].update(enabled=False)),
        OTHER_CONFIGURATION,
    ),
    Case(
        "TD605",
        "nothing is kept level",
        breakages.configured(lambda tree: tree["scaleDown"].clear()),
        OTHER_CONFIGURATION,
    ),
    Case("TD606", "is not there", breakages.policy("wbe")),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation() -> AsyncIterator[Installation]:
    """An installation in which nothing is wrong."""
    async with Client(Session(config.discover())) as client, deployment_sandbox(client, {"zone-a": 3}) as sandbox:
        await sandbox.deploy("web", 3)
        tree = configuration(sandbox.name, scaleDown={"defaultPolicies": [{"name": "level"}]})
        tree |= {"leaderElection": {"enabled": True}}
        async with running(client, tree, COMPONENTS) as trimtab:
            made = Installation(client, trimtab, sandbox)
            await made.deploy()
            yield made
            await made.remove()


async def findings(made: Installation, case: Case | None = None) -> list[dict[str, Any]]:
    """What the command finds, without what it finds in the work of other tests."""
    options = (case.options if case else ()) or ("--namespace", made.namespace)
    _, _, result = await doctor(*options, prefix=case.prefix if case else ())
    return list(result["findings"])


def shown(found: list[dict[str, Any]]) -> str:
    """Findings for people."""
    return json.dumps(found, indent=1)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_finding_is_provoked_on_a_control_plane(case: Case, installation: Installation) -> None:
    """It appears with its message and fix, within a minute; beside it only what follows from the same cause."""
    await skip_what_cannot_be_provoked(case, installation)
    async with case.provoke(installation):
        found: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(PATIENCE):
                while not is_diagnosed(case, found):
                    found = await findings(installation, case)
        except TimeoutError:
            pytest.fail(shown(found))


def is_diagnosed(case: Case, found: list[dict[str, Any]]) -> bool:
    """Whether this was found, with its fix, and nothing that does not follow."""
    wanted = [each for each in found if each["id"] == case.id and case.message in each["message"] and each["fix"]]
    others = {each["id"] for each in found} - {case.id, "TD102"}
    return bool(wanted) and others <= case.follows


async def skip_what_cannot_be_provoked(case: Case, made: Installation) -> None:
    """Some findings need a control plane, or a program, that is not everywhere."""
    if case.id == "TD102" and not any(each["id"] == "TD102" for each in await findings(made)):
        pytest.skip("this API server is of a supported version: it is found on 1.38")
    if case.prefix and shutil.which(case.prefix[0]) is None:
        pytest.skip(f"{case.prefix[0]} is not installed")
    if case.id == "TD501" and not await authorizes(made.trimtab):
        pytest.skip("this API server allows every user everything")
    if case.id == "TD303" and "TD303" not in (await doctor("--namespace", made.namespace))[2]["checked"]:
        pytest.skip("this API server does not serve EndpointSlices")
    if case.id == "TD402" and not await made.has_managed_fields():
        pytest.skip("this API server does not note when a field was written")


def test_every_rule_is_provoked() -> None:
    """A rule that nothing provokes would not be known to work."""
    assert {case.id for case in CASES} == {rule.id for rule in RULES}


@pytest.mark.asyncio(loop_scope="module")
async def test_what_was_mended_is_healthy(installation: Installation) -> None:
    """After all repairs nothing is found; the version of the API server stays what it is."""
    async with asyncio.timeout(PATIENCE):
        while found := [each for each in await findings(installation) if each["id"] != "TD102"]:
            pass
    assert found == []
