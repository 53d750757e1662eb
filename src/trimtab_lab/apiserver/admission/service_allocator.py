"""The allocation of cluster IPs and node ports to Services."""

from __future__ import annotations

from typing import Any

from trimtab_lab.apiserver.kinds.errors import StatusError, invalid
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.validation import causes
from trimtab_lab.apiserver.storage.store import Collection, Event, Store, Tree

_NODE_PORTS = range(30000, 32768)


class ServiceAllocator:
    """The cluster IPs (10.0.0.0/16) and node ports of all Services."""

    def __init__(self, store: Store) -> None:
        self._taken: dict[str | int, str] = {}
        self._next_address = 2
        self._next_port = _NODE_PORTS.start
        store.listen(self._on_event)

    def assign(self, kind: Kind, tree: Tree, old: Tree | None = None) -> None:
        """Allocate what a Service needs and does not have. Raises a StatusError of 422 if it asks for what is
        allocated."""
        spec = tree["spec"]
        if spec.get("type") == "ExternalName":
            return
        own = old["metadata"]["uid"] if old else ""
        address = spec.get("clusterIP") or self._free_address()
        if address != "None" and self._taken.get(address, own) != own:
            raise _already_allocated(
                kind, tree, "spec.clusterIPs", [address], "failed to allocate IP", "provided IP is already allocated"
            )
        spec["clusterIP"] = address
        spec.setdefault("clusterIPs", [address])
        spec.setdefault("ipFamilies", ["IPv6" if ":" in address else "IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            self._assign_ports(kind, tree, own)

    def _assign_ports(self, kind: Kind, tree: Tree, own: str) -> None:
        for index, port in enumerate(tree["spec"].get("ports") or ()):
            wanted = port.get("nodePort")
            if wanted and self._taken.get(wanted, own) != own:
                raise _already_allocated(
                    kind, tree, f"spec.ports[{index}].nodePort", wanted, "", "provided port is already allocated"
                )
            port["nodePort"] = wanted or self._free_port()

    def _free_address(self) -> str:
        while True:
            high, low = divmod(self._next_address, 256)
            self._next_address = self._next_address + 1 if self._next_address < 65_000 else 2
            address = f"10.0.{high}.{low}"
            if address not in self._taken:
                return address

    def _free_port(self) -> int:
        for _ in _NODE_PORTS:
            port = self._next_port
            self._next_port = port + 1 if port + 1 in _NODE_PORTS else _NODE_PORTS.start
            if port not in self._taken:
                return port
        raise RuntimeError("all node ports are allocated")

    def _on_event(self, collection: Collection, event: Event) -> None:
        if collection.name != "/services":
            return
        uid = event.entry.uid
        for held in [held for held, owner in self._taken.items() if owner == uid]:
            del self._taken[held]
        if event.type != "DELETED":
            spec = event.entry.tree()["spec"]
            for held in (*(spec.get("clusterIPs") or ()), *(p.get("nodePort") for p in spec.get("ports") or ())):
                if held and held != "None":
                    self._taken[held] = uid


def _already_allocated(kind: Kind, tree: Tree, field: str, value: Any, prefix: str, problem: str) -> StatusError:
    detail = f"{prefix} {value[0]}: {problem}" if prefix else problem
    return invalid(kind.group, kind.kind, tree["metadata"].get("name", ""), [causes.invalid(field, value, detail)])
