"""The status of a pod as `kubectl get pods` prints it.

It is the first that exists of: the state of an init container that failed or is running; that of a container that waits
or has ended; the reason in the pod's status; its phase. A deleted pod is Terminating, unless it had ended before.
"""

from __future__ import annotations

from trimtab_lab.apiserver.storage.store import Tree


class PodState:
    """The printed state of a pod's containers: how many are ready, the status, and the restarts."""

    def __init__(self, pod: Tree) -> None:
        self._spec, self._status = pod["spec"], pod.get("status") or {}
        self._restartable = {
            c.get("name") for c in self._spec.get("initContainers") or () if c.get("restartPolicy") == "Always"
        }
        self.total = len(self._spec.get("containers") or ()) + len(self._restartable)
        self.ready = 0
        self.restarts = 0
        self.restarted_at = ""
        self.reason = self._first_reason()
        self._sidecars = (0, "")
        initializing = self._read_init_containers()
        if not initializing or self._condition("Initialized"):
            self.restarts, self.restarted_at = self._sidecars
            self._read_containers()
        self._read_deletion(pod)

    def _first_reason(self) -> str:
        reason = self._status.get("reason") or self._status.get("phase", "")
        for condition in self._status.get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
                reason = "SchedulingGated"
        return str(reason)

    def _condition(self, kind: str) -> bool:
        conditions = [c for c in self._status.get("conditions") or () if c.get("type") == kind]
        return bool(conditions) and conditions[0].get("status") == "True"

    def _count_restarts(self, status: Tree) -> None:
        self.restarts += status.get("restartCount", 0)
        ended = (status.get("lastState") or {}).get("terminated") or {}
        self.restarted_at = max(self.restarted_at, ended.get("finishedAt") or "")

    def _read_init_containers(self) -> bool:
        """Whether an init container is still running, or has failed."""
        for index, status in enumerate(self._status.get("initContainerStatuses") or ()):
            self._count_restarts(status)
            restartable = status.get("name") in self._restartable
            if restartable:
                ended = (status.get("lastState") or {}).get("terminated") or {}
                count, moment = self._sidecars
                self._sidecars = count + status.get("restartCount", 0), max(moment, ended.get("finishedAt") or "")
            state = status.get("state") or {}
            if (state.get("terminated") or {"exitCode": 1}).get("exitCode", 0) == 0:
                continue
            if restartable and status.get("started"):
                self.ready += bool(status.get("ready"))
                continue
            self.reason = f"Init:{self._init_reason(state, index)}"
            return True
        return False

    def _init_reason(self, state: Tree, index: int) -> str:
        if "terminated" in state:
            return _ended_reason(state["terminated"])
        waiting = (state.get("waiting") or {}).get("reason", "")
        if waiting and waiting != "PodInitializing":
            return str(waiting)
        return f"{index}/{len(self._spec.get('initContainers') or ())}"

    def _read_containers(self) -> None:
        running, failure = False, ""
        for status in reversed(self._status.get("containerStatuses") or ()):
            self._count_restarts(status)
            state = status.get("state") or {}
            if (state.get("waiting") or {}).get("reason"):
                self.reason = state["waiting"]["reason"]
            elif "terminated" in state:
                self.reason = _ended_reason(state["terminated"])
                failure = self.reason if state["terminated"].get("exitCode", 0) else failure
            elif status.get("ready") and "running" in state:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            self._read_completion(running, failure)

    def _read_completion(self, running: bool, failure: str) -> None:
        if running and self._condition("Ready"):
            self.reason = "Running"
        elif failure:
            self.reason = failure
        elif running:
            self.reason = "NotReady"

    def _read_deletion(self, pod: Tree) -> None:
        if not pod["metadata"].get("deletionTimestamp"):
            return
        if self._status.get("reason") == "NodeLost":
            self.reason = "Unknown"
        elif self._status.get("phase") not in ("Succeeded", "Failed"):
            self.reason = "Terminating"


def _ended_reason(ended: Tree) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
