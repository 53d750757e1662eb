"""Removal: everything of ours goes, nothing else, and no request waits for a component that is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.install import definitions, manifests, namespaces, removal
from trimtab.install.deployments import CONFIGURATION, CONFIGURATION_FILE
from trimtab.install.options import MANAGED_BY, NAME, Options
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.errors import ApiError, Forbidden, IncompleteSweep, NotFound, TooManyRequests, Unreachable
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.sessions import Session
from trimtab_lab.apiserver.wire.server import Server

OPTIONS = Options(namespace="level")
LEFT_OUT = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "NetworkPolicy")
"""What the lab's API server does not serve."""


@asynccontextmanager
async def a_cluster(folder: Path) -> AsyncIterator[Client]:
    """An API server with nothing in it."""
    async with Server(folder) as server, Client(Session(discover(server.kubeconfig))) as client:
        yield client


async def put(client: Client, *objects: JSON) -> None:
    """Create objects as `kubectl create` would, conditions that need CEL left out."""
    for each in objects:
        plain = {
            **each,
            **({"webhooks": [_without_conditions(w) for w in each["webhooks"]]} if "webhooks" in each else {}),
        }
        if each["kind"] not in LEFT_OUT:
            namespace = each["metadata"].get("namespace", "")
            await client.create(resource(each), plain, namespace=namespace)


def _without_conditions(webhook: JSON) -> JSON:
    plain = {name: value for name, value in webhook.items() if name != "matchConditions"}
    return plain | {"clientConfig": {"url": f"https://127.0.0.1:9{webhook['clientConfig']['service']['path']}"}}


def resource(an_object: JSON) -> Resource[JSON]:
    """What an object's kind is called on the wire."""
    plural = {**removal.PLURALS, "CustomResourceDefinition": "customresourcedefinitions"}[an_object["kind"]]
    return untyped(an_object["apiVersion"], an_object["kind"], plural, namespaced="namespace" in an_object["metadata"])


async def left(client: Client, objects: list[JSON]) -> list[str]:
    """What of these is still there."""
    found = []
    for each in objects:
        metadata = each["metadata"]
        try:
            there = await client.get(resource(each), metadata["name"], namespace=metadata.get("namespace", ""))
        except NotFound:
            continue
        if not there["metadata"].get("deletionTimestamp"):
            found.append(f"{each['kind']} {metadata['name']}")
    return found


async def test_what_was_installed_is_removed_and_may_be_removed_again(tmp_path: Path) -> None:
    """Webhooks first, then what runs, then what was written, then the rest; definitions stay."""
    async with a_cluster(tmp_path) as client:
        chosen = definitions.choose("auto", [])
        objects = manifests.everything(OPTIONS, chosen.manifests)
        await put(client, *objects)
        lines: list[str] = []

        async def cleanup(_: Client) -> int:
            lines.append("cleanup")
            return 3

        await removal.remove(client, OPTIONS, lines.append, cleanups={"costs": cleanup})
        kinds = [line.split()[1] if line.startswith("removed") else line for line in lines]
        assert kinds[:2] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
        assert kinds.index("cleanup") > max(at for at, kind in enumerate(kinds) if kind == "Deployment")
        assert kinds[-1] == "Namespace"
        assert "reverted: 3 costs" in lines
        kept = {f"CustomResourceDefinition {each['metadata']['name']}" for each in chosen.manifests}
        assert set(await left(client, objects)) == kept
        again: list[str] = []
        await removal.remove(client, OPTIONS, again.append, cleanups={})
        assert [line for line in again if line.startswith("removed")] == []


async def test_a_dry_run_reports_what_a_removal_then_does(tmp_path: Path) -> None:
    """In the same order, and removes nothing; objects that do not exist are not named."""
    theirs = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"namespace": "level", "name": "trimtab-webhooks"},
    }
    async with a_cluster(tmp_path) as client:
        empty: list[str] = []
        assert await removal.dry_run(client, OPTIONS, empty.append) == []
        assert {line.split()[1] for line in empty} == {"revert"}, "nothing is there to be removed"
        objects = [each for each in manifests.everything(OPTIONS) if each["kind"] != "Service"]
        own = [
            each
            for each in objects
            if (each["kind"], each["metadata"]["name"]) != ("ServiceAccount", "trimtab-webhooks")
        ]
        await put(client, *own, theirs)
        planned, done = list[str](), list[str]()
        assert await removal.dry_run(client, OPTIONS, planned.append) == []
        assert len(await left(client, own)) == len([each for each in own if each["kind"] not in LEFT_OUT])
        await removal.remove(client, OPTIONS, done.append, cleanups={})
        as_planned = [f"would remove {line.removeprefix('removed ')}" for line in done if line.startswith("removed ")]
        assert [line for line in planned if line.startswith("would remove")] == as_planned
        assert (
            [line for line in planned if line.startswith("would keep")]
            == [f"would keep: {line.removeprefix('kept: ')}" for line in done if line.startswith("kept: ")]
            != []
        )


async def test_a_dry_run_lists_what_it_could_not_read(tmp_path: Path) -> None:
    """Whether that exists is not known."""

    class Refusing(Client):
        """Refuses to read Services."""

        async def get(self, kind: Any, name: str, **options: Any) -> Any:
            if isinstance(kind, Resource) and kind.kind == "Service":
                raise Forbidden("not you")
            return await super().get(kind, name, **options)

    async with a_cluster(tmp_path) as client:
        refusing = Refusing(client.transport, settings=client.settings)
        assert await removal.dry_run(refusing, OPTIONS, lambda _: None) == ["Service level/trimtab-webhooks: not you"]


async def test_cleanups_are_retried_while_the_removed_policy_still_applies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our admission policy may still refuse the changes for a while; retries end with the timeout."""
    monkeypatch.setattr(removal, "_INTERVAL", 0.0)
    refusals = iter([Forbidden("not you"), ApiError("2 objects still have costs of ours")])

    async def cleanup(_: Client) -> int:
        for refusal in refusals:
            raise refusal
        return 12

    async def refused(_: Client) -> int:
        raise Forbidden("never")

    async with a_cluster(tmp_path) as client:
        lines: list[str] = []
        await removal.remove(client, OPTIONS, lines.append, cleanups={"costs": cleanup})
        assert "reverted: all costs" in lines
        monkeypatch.setattr(removal, "_POLICY_TIMEOUT", 0.0)
        done: list[str] = []
        left = await removal.remove(client, OPTIONS, done.append, cleanups={"costs": refused, "labels": cleanup})
        assert left == ["costs: never"]
        assert done[-2:] == ["reverted: not all costs", "reverted: 12 labels"], "the rest was not done"


async def test_what_could_not_be_done_is_listed_and_the_rest_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each object with the reason, whether it was to be reverted or removed."""
    monkeypatch.setattr(removal, "_POLICY_TIMEOUT", 0.0)

    async def cleanup(_: Client) -> int:
        raise IncompleteSweep({"pod shop/a": "must be a 32bit integer", "pod shop/b": "denied"}, count=7)

    class Refusing(Client):
        """Refuses to delete Services."""

        async def delete(self, kind: Any, name: str, **options: Any) -> None:
            if kind.kind == "Service":
                raise Forbidden("a lock is on it")
            await super().delete(kind, name, **options)

    async with a_cluster(tmp_path) as client:
        await put(client, *manifests.everything(OPTIONS, []))
        refusing = Refusing(client.transport, settings=client.settings)
        lines: list[str] = []
        left = await removal.remove(refusing, OPTIONS, lines.append, cleanups={"costs": cleanup})
        assert left == [
            "costs: pod shop/a: must be a 32bit integer",
            "costs: pod shop/b: denied",
            "Service level/trimtab-webhooks: a lock is on it",
        ]
        assert any(line.startswith("removed ClusterRole ") for line in lines)


class Busy(Client):
    """Refuses to list pods, once or always."""

    refusals = 1

    async def list(self, kind: Any, **options: Any) -> Any:
        if kind is Pod and self.refusals:
            self.refusals -= 1
            raise TooManyRequests("try again")
        return await super().list(kind, **options)


@pytest.mark.parametrize(
    ("refusals", "want"),
    [
        pytest.param(1, [], id="once"),
        pytest.param(-1, ["waiting for the pods in level, which may write once more: try again"], id="always"),
    ],
)
async def test_a_removal_goes_on_if_pods_cannot_be_listed(
    refusals: int, want: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The webhooks are gone by then: costs are reverted, and the rest is removed, all the same."""
    monkeypatch.setattr(removal, "_INTERVAL", 0.0)
    monkeypatch.setattr(removal, "_PODS_TIMEOUT", 60.0 if refusals == 1 else 0.0)

    async def cleanup(_: Client) -> int:
        return 3

    async with a_cluster(tmp_path) as client:
        await put(client, *manifests.everything(OPTIONS, []))
        busy = Busy(client.transport, settings=client.settings)
        busy.refusals = refusals
        lines: list[str] = []
        assert await removal.remove(busy, OPTIONS, lines.append, cleanups={"costs": cleanup}) == want
        assert "reverted: 3 costs" in lines
        assert lines[-1] == "removed Namespace level"


async def test_a_refused_list_of_definitions_is_reported(tmp_path: Path) -> None:
    """What could not be done before is not lost."""

    class Refusing(Client):
        """Refuses to list definitions."""

        async def list(self, kind: Any, **options: Any) -> Any:
            raise TooManyRequests(f"try again, {kind.kind} {options}")

    async with a_cluster(tmp_path) as client:
        refusing = Refusing(client.transport, settings=client.settings)
        (failure,) = await removal.remove_definitions(refusing, lambda _: None)
        assert failure.startswith("CustomResourceDefinitions: try again")


async def test_a_cluster_that_is_gone_ends_a_removal(tmp_path: Path) -> None:
    """Nothing else could be done either."""

    async def cleanup(_: Client) -> int:
        raise Unreachable("no route to host")

    async with a_cluster(tmp_path) as client:
        with pytest.raises(Unreachable):
            await removal.remove(client, OPTIONS, lambda _: None, cleanups={"costs": cleanup})


async def test_names_that_the_configuration_chose_are_found_again(tmp_path: Path) -> None:
    """What was installed says how it is called; where it cannot be read any more, the usual names are taken."""
    chosen = {"webhooks": {"registeredAs": "level", "service": "level-webhooks"}}
    options = Options(namespace="level", configuration=chosen)
    async with a_cluster(tmp_path) as client:
        objects = manifests.everything(options)
        await put(client, *objects)
        assert (await removal.installed(client, "level")).read() == options.read()
        await removal.remove(client, await removal.installed(client, "level"), lambda _: None, cleanups={})
        assert await left(client, objects) == []
        assert (await removal.installed(client, "elsewhere")).read() == Options(namespace="elsewhere").read()


async def test_objects_created_at_runtime_are_removed_from_a_namespace_that_stays(tmp_path: Path) -> None:
    """Certificates and leases; other people's secrets are not touched."""
    metadata = {"namespace": "default"}
    ours = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {**metadata, "name": "trimtab-webhook-certificates"}},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {**metadata, "name": "trimtab-webhooks"}},
    ]
    ours[0]["metadata"]["labels"] = {MANAGED_BY: NAME}  # type: ignore[index]
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {**metadata, "name": "password"}}
    async with a_cluster(tmp_path) as client:
        await put(client, *ours, theirs)
        await removal.remove(client, Options(namespace="default"), lambda _: None, cleanups={})
        assert await left(client, [*ours, theirs]) == ["Secret password"]


async def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    """Whatever its name."""
    async with a_cluster(tmp_path) as client:
        theirs = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "trimtab-view.level"},
            "rules": [],
        }
        await put(client, theirs)
        lines: list[str] = []
        await removal.remove(client, OPTIONS, lines.append, cleanups={})
        assert await left(client, [theirs]) == ["ClusterRole trimtab-view.level"]
        assert "kept: ClusterRole trimtab-view.level" in lines[0]


async def test_definitions_go_only_if_they_are_ours(tmp_path: Path) -> None:
    """And it is known beforehand how many objects go with each."""
    async with a_cluster(tmp_path) as client:
        ours, *_, theirs = definitions.choose("all", []).manifests
        theirs = {**theirs, "metadata": {"name": theirs["metadata"]["name"]}}
        await put(client, ours, theirs)
        found = await removal.ours(client)
        assert [each["metadata"]["name"] for each in found] == [ours["metadata"]["name"]]
        assert await removal.count_objects(client, found[0]) == 0
        await removal.remove_definitions(client, lambda _: None)
        assert await left(client, [ours, theirs]) == [f"CustomResourceDefinition {theirs['metadata']['name']}"]


@pytest.mark.parametrize("kind", sorted({each["kind"] for each in manifests.everything(OPTIONS)}))
def test_every_kind_that_is_installed_can_be_removed(kind: str) -> None:
    """A new kind must be entered in the table."""
    assert kind in removal.PLURALS


def a_namespace(name: str) -> JSON:
    """One that somebody made."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def test_a_namespace_that_we_did_not_create_is_neither_changed_nor_removed(tmp_path: Path) -> None:
    """Neither is it labelled as ours on the way in, nor does it go, with all that is in it, on the way out."""
    async with a_cluster(tmp_path) as client:
        await put(client, a_namespace("monitoring"))
        reason = await namespaces.why_foreign(client, "monitoring")
        assert "does not carry the label" in reason
        assert "Namespace" not in {each["kind"] for each in manifests.everything(Options(shared=reason))}
        assert await namespaces.why_foreign(client, "not-there-yet") == ""
        options = await removal.installed(client, "monitoring")
        lines: list[str] = []
        await removal.remove(client, options, lines.append, cleanups={})
        assert lines[-1].startswith("kept: Namespace monitoring: it exists")
        assert await left(client, [a_namespace("monitoring")]) == ["Namespace monitoring"]


@pytest.mark.parametrize("name", ["default", "kube-system"])
async def test_a_built_in_namespace_is_never_ours(name: str, tmp_path: Path) -> None:
    """Whether or not a cluster can be asked."""
    async with a_cluster(tmp_path) as client:
        assert (
            await namespaces.why_foreign(client, name) == namespaces.why_foreign_by_name(name) == "every cluster has it"
        )
    assert namespaces.why_foreign_by_name("level") == ""


async def test_a_namespace_with_foreign_objects_is_kept(tmp_path: Path) -> None:
    """Even where ours was applied over it; what runs for us, and what every namespace has, does not count."""
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "level", "name": "password"}}
    async with a_cluster(tmp_path) as client:
        await put(client, *manifests.everything(OPTIONS))
        assert (await removal.installed(client, "level")).shared == ""
        await put(client, theirs)
        options = await removal.installed(client, "level")
        assert options.shared == "Secret password in it is not Trimtab's"
        planned: list[str] = []
        await removal.dry_run(client, options, planned.append)
        assert "would keep: Namespace level: Secret password in it is not Trimtab's" in planned
        assert "would remove Namespace level" not in planned
        await removal.remove(client, options, lambda _: None, cleanups={})
        assert await left(client, [theirs, a_namespace("level")]) == ["Secret password", "Namespace level"]


async def test_a_configuration_that_was_edited_by_hand_is_read(tmp_path: Path) -> None:
    """The processes read it as YAML, and people write YAML."""
    async with a_cluster(tmp_path) as client:
        await put(client, *manifests.everything(OPTIONS))
        edited = {"data": {CONFIGURATION_FILE: "scaleDown:\n  enabled: false\nwebhooks: {registeredAs: level}\n"}}
        await client.patch(untyped("v1", "ConfigMap", "configmaps"), CONFIGURATION, edited, namespace="level")
        assert (await removal.installed(client, "level")).read().webhooks.registered_as == "level"
