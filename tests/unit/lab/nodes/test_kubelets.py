"""Kubelets: pods start, crash, end and are deleted, on an API server in memory and under a virtual clock."""

from __future__ import annotations

from tests.unit.lab.nodes.controlplane import CORE, ControlPlane, running
from trimtab.kube.resources import object_key
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.nodes import shapes
from trimtab_lab.nodes.addresses import POD_NETWORK, Addresses
from trimtab_lab.nodes.settings import Settings


async def test_a_pod_starts_and_becomes_ready() -> None:
    """First it is being created, then it runs, with addresses."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1")
        await stage.settle()
        assert stage.server.pod("p")["phase"] == "Pending"
        assert stage.server.pod("p")["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await stage.advance(1)
        status = stage.server.pod("p")
        assert (status["phase"], stage.server.stands("pods", "p")) == ("Running", "True")
        assert status["hostIP"] == stage.server.one("nodes", "a-1")["status"]["addresses"][0]["address"]
        assert status["podIP"]
        assert stage.server.stands("pods", "p", "PodScheduled") == "True"


async def test_a_pod_is_written_only_when_it_changes() -> None:
    """Created and running are two writes, and an hour of running is none."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1")
        await stage.advance(3600)
        assert stage.server.written()["PATCH pods/status"] == 2


async def test_a_pod_that_starts_at_once_is_written_once() -> None:
    """The short phase of being created is not written."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1", {"start-seconds": "0.2"})
        await stage.advance(1)
        assert stage.server.stands("pods", "p") == "True"
        assert stage.server.written()["PATCH pods/status"] == 1


async def test_writes_are_spread_over_time() -> None:
    """Ten pods that start at once are written one a second."""
    async with running(settings=Settings(writes_per_second=1.0, write_burst=1)) as stage:
        for number in range(10):
            stage.server.add_pod(f"p-{number}", "a-1", {"start-seconds": "0"})
        await stage.advance(4.5)
        assert stage.server.written()["PATCH pods/status"] == 5
        await stage.advance(5)
        assert all(stage.server.stands("pods", f"p-{number}") == "True" for number in range(10))


async def test_pods_of_other_nodes_are_ignored() -> None:
    """Neither those of nodes that are not ours nor those without a node."""
    server = ControlPlane(VirtualClock())
    server.put(CORE, "nodes", {"metadata": {"name": "real"}, "spec": {}, "status": {}})
    async with running(server=server) as stage:
        server.add_pod("theirs", "real")
        server.add_pod("nowhere", "")
        server.add_pod("gone", "no-such-node")
        await stage.advance(60)
        assert {server.pod(name)["phase"] for name in ("theirs", "nowhere", "gone")} == {"Pending"}
        assert server.written()["PATCH pods/status"] == 0


async def test_a_crashing_pod_is_restarted() -> None:
    """Its restarts are counted, and its last state is shown."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1", {"crash-after-seconds": "5", "exit-code": "7"})
        await stage.advance(6.5)
        (main,) = stage.server.pod("p")["containerStatuses"]
        assert (main["state"]["terminated"]["exitCode"], stage.server.stands("pods", "p")) == (7, "False")
        await stage.advance(1)
        (main,) = stage.server.pod("p")["containerStatuses"]
        assert (main["restartCount"], stage.server.stands("pods", "p")) == (1, "True")
        await stage.advance(5)
        (main,) = stage.server.pod("p")["containerStatuses"]
        assert main["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        await stage.advance(600)
        assert stage.server.pod("p")["containerStatuses"][0]["restartCount"] >= 5


async def test_a_pod_can_end() -> None:
    """Well or badly, as its annotations and restart policy have it."""
    async with running() as stage:
        stage.server.add_pod("good", "a-1", {"complete-after-seconds": "5"}, restartPolicy="Never")
        stage.server.add_pod("bad", "a-1", {"crash-after-seconds": "5"}, restartPolicy="Never")
        await stage.advance(10)
        assert (stage.server.pod("good")["phase"], stage.server.pod("bad")["phase"]) == ("Succeeded", "Failed")
        writes = stage.server.written()["PATCH pods/status"]
        await stage.advance(600)
        assert stage.server.written()["PATCH pods/status"] == writes


async def test_init_containers_run_one_after_the_other() -> None:
    """The pod is pending until they are through."""
    async with running() as stage:
        inits = [{"name": "one", "image": "i"}, {"name": "two", "image": "i"}]
        stage.server.add_pod("p", "a-1", {"init-seconds": "3"}, initContainers=inits)
        await stage.advance(5)
        states = [next(iter(each["state"])) for each in stage.server.pod("p")["initContainerStatuses"]]
        assert (states, stage.server.pod("p")["phase"]) == (["terminated", "running"], "Pending")
        await stage.advance(3)
        assert stage.server.pod("p")["phase"] == "Running"


async def test_changed_annotations_apply_to_a_running_pod() -> None:
    """Annotations that change take effect at once."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1")
        await stage.advance(60)
        stage.server.annotate("pods", "p", {"behaviour": "hang"})
        await stage.settle()
        assert stage.server.stands("pods", "p") == "False"
        stage.server.annotate("pods", "p", {})
        await stage.settle()
        assert stage.server.stands("pods", "p") == "True"


async def test_an_invalid_annotation_is_reported_in_an_event() -> None:
    """The pod runs all the same."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1", {"ready-seconds": "soon"})
        await stage.advance(5)
        assert stage.server.stands("pods", "p") == "True"
        (event,) = stage.server.objects("events")
        assert (event["reason"], event["involvedObject"]["name"]) == ("InvalidAnnotation", "p")
        assert "ready-seconds" in event["message"]


# Deletion.


async def test_a_deleted_pod_goes_when_its_containers_have_stopped() -> None:
    """Two seconds, in a grace period of thirty."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1")
        await stage.advance(5)
        stage.server.delete_pod("p")
        await stage.advance(1)
        assert stage.server.has("pods", "p")
        await stage.advance(1)
        assert not stage.server.has("pods", "p")
        assert stage.server.written()["DELETE pods"] == 1


async def test_a_deleted_pod_goes_when_its_grace_period_is_over() -> None:
    """However long its containers would take."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1", {"stop-seconds": "900"})
        await stage.advance(5)
        stage.server.delete_pod("p", grace=10)
        await stage.advance(9)
        assert stage.server.has("pods", "p")
        await stage.advance(1)
        assert not stage.server.has("pods", "p")


async def test_a_pod_with_a_finalizer_shows_how_it_ended() -> None:
    """The finalizer's owner can read it, and the pod is removed once."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1")
        stage.server.change("pods", "p", metadata={"finalizers": ["example.com/count"]})
        await stage.advance(5)
        stage.server.delete_pod("p")
        await stage.advance(10)
        assert stage.server.pod("p")["phase"] == "Succeeded"
        assert stage.server.one("pods", "p")["metadata"]["deletionGracePeriodSeconds"] == 0
        assert stage.server.written()["DELETE pods"] == 1


async def test_a_successor_of_the_same_name_is_another_pod() -> None:
    """It starts from the beginning, and is not removed in place of the one before."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1")
        await stage.advance(5)
        stage.server.delete_pod("p", grace=0)
        stage.server.add_pod("p", "b-1")
        await stage.settle()
        assert stage.server.pod("p")["phase"] == "Pending"
        await stage.advance(5)
        assert stage.server.stands("pods", "p") == "True"


# Memory.


async def test_a_process_that_starts_again_carries_on() -> None:
    """A pod that ran goes on, one that was about to start starts, one that was to go goes."""
    async with running() as stage:
        stage.server.add_pod("old", "a-1")
        stage.server.add_pod("leaving", "a-1", {"stop-seconds": "8"})
        stage.server.add_pod("crashing", "a-1", {"crash-after-seconds": "4"})
        await stage.advance(6)
        stage.server.add_pod("new", "b-1", {"start-seconds": "5"})
        stage.server.delete_pod("leaving")
        await stage.settle()
        before = stage.server.pod("old")
        await stage.restart()
        assert stage.server.pod("old") == before
        await stage.advance(5)
        assert stage.server.stands("pods", "new") == "True"
        await stage.advance(4)
        assert not stage.server.has("pods", "leaving")
        await stage.advance(60)
        assert stage.server.pod("crashing")["containerStatuses"][0]["restartCount"] >= 2


async def test_a_process_that_was_away_does_not_invent_a_history() -> None:
    """A pod that would have crashed meanwhile crashes when its kubelet is back, once."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1", {"crash-after-seconds": "30"})
        await stage.advance(10)
        await stage.stop()
        await stage.clock.advance(3600)
        await stage.restart()
        (main,) = stage.server.pod("p")["containerStatuses"]
        assert "terminated" in main["state"]
        await stage.advance(2)
        assert stage.server.pod("p")["containerStatuses"][0]["restartCount"] == 1


async def test_addresses_are_not_shared() -> None:
    """Not among many pods, and not with those of before a restart; pods on the host's network have the host's."""
    async with running() as stage:
        for number in range(20):
            stage.server.add_pod(f"p-{number}", f"a-{number % 2 + 1}")
        stage.server.add_pod("host", "a-1", hostNetwork=True)
        await stage.advance(5)
        await stage.restart()
        for number in range(20, 40):
            stage.server.add_pod(f"p-{number}", f"b-{number % 2 + 1}")
        await stage.advance(5)
        taken = [stage.server.pod(f"p-{number}")["podIP"] for number in range(40)]
        assert len(set(taken)) == 40
        assert stage.server.pod("host")["podIP"] == stage.server.pod("host")["hostIP"]


async def test_what_was_written_is_not_written_again_while_the_watch_lags() -> None:
    """A kubelet remembers what it wrote until it has seen it."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1", {"start-seconds": "2"})
        await stage.settle()
        stage.server.cut_watches()
        await stage.clock.advance(0.01)
        await stage.advance(60)
        assert stage.server.stands("pods", "p") == "True"
        assert stage.server.written()["PATCH pods/status"] == 2


async def test_what_was_done_is_not_done_again_before_it_is_seen() -> None:
    """Two syncs of a pod that the informer shows unchanged write its status once, and remove it once."""
    async with running() as stage:
        stage.server.add_pod("starts", "a-1")
        stage.server.add_pod("goes", "a-1", {"start-seconds": "0"})
        await stage.settle()
        stage.server.delete_pod("goes")
        await stage.settle()
        await stage.stop()
        stage.server.requests.clear()
        await stage.clock.advance(5)
        for name in ("starts", "goes", "starts", "goes"):
            await stage.nodes.kubelets.reconcile(object_key("default", name))
        assert stage.server.written() == {"PATCH pods/status": 1, "DELETE pods": 1}


async def test_an_address_that_a_pod_brings_along_is_taken() -> None:
    """Another pod that would have been given it is given another."""
    async with running() as stage:
        stage.server.add_pod("holder", "a-1")
        await stage.advance(5)
        await stage.stop()
        uid = stage.server.add_pod("new", "a-2")["metadata"]["uid"]
        wanted = Addresses(POD_NETWORK).allocate(uid)
        stage.server.change("pods", "holder", status={"podIP": wanted, "podIPs": [{"ip": wanted}]})
        await stage.restart()
        await stage.advance(5)
        assert stage.server.pod("holder")["podIP"] == wanted
        assert stage.server.pod("new")["podIP"] != wanted


async def test_a_pod_that_another_component_ended_stays_ended() -> None:
    """A phase that is never left is not left, whatever the kubelet thought."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1")
        await stage.advance(5)
        stage.server.change("pods", "p", status={"phase": "Failed"})
        await stage.advance(60)
        assert stage.server.pod("p")["phase"] == "Failed"
        assert stage.server.stands("pods", "p") == "False"


async def test_two_runs_with_one_seed_are_alike() -> None:
    """The same pods start at the same moments."""
    spread = shapes.read({"zones": [{"name": "a", "nodes": 2}], "pods": {"startSeconds": "1-60"}})
    moments = []
    for _ in range(2):
        async with running(spread) as stage:
            for number in range(10):
                stage.server.add_pod(f"p-{number}", "a-1")
            await stage.advance(70)
            moments.append([stage.server.pod(f"p-{n}")["containerStatuses"][0]["state"] for n in range(10)])
    assert moments[0] == moments[1]
    assert len({str(state) for state in moments[0]}) > 5
