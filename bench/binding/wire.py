"""Requests and a watch over blocking TLS sockets, in threads: a few tens of microseconds of Python each.

The clients of a measurement share the machine with what is measured. So requests are prepared as bytes, responses are
read only as far as their status and length, and the events of a watch are counted and not decoded.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Self
from urllib.parse import urlencode, urlsplit

from trimtab.kube import config
from trimtab.kube.credentials import Grant
from trimtab.kube.tls import Contexts

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_LAST_CHUNK = b"0\r\n\r\n"
_SIZE = 1 << 16
_ADDED = b'{"type":"ADDED"'
_SCHEDULED = b'"reason":"Scheduled"'
_INTERVAL, _QUIET = 0.2, 3.0
"""Seconds between two counts of events, and after which no further one is expected."""


class UnexpectedResponseError(RuntimeError):
    """The API server refused a request."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an API server listens, and the TLS settings of the administrator."""

    host: str
    port: int
    context: ssl.SSLContext

    @classmethod
    async def read(cls, kubeconfig: Path) -> Self:
        """The address in a kubeconfig."""
        endpoint = config.discover(kubeconfig)
        grant: Grant = await endpoint.credentials.grant()
        url = urlsplit(endpoint.base)
        return cls(url.hostname or "", url.port or 443, Contexts(endpoint.trust).context(grant))

    def connect(self) -> ssl.SSLSocket:
        """A new connection."""
        plain = socket.create_connection((self.host, self.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(plain, server_hostname=self.host)

    def request(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
        """A request as bytes."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nAccept: application/json\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Connection:
    """A connection that sends one request after the other."""

    def __init__(self, address: Address) -> None:
        self._socket = address.connect()

    def send(self, request: bytes) -> None:
        """Send a request and read its response. Raises UnexpectedResponseError unless it is a success."""
        self._socket.sendall(request)
        data = self._read()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._read()
        if not data.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            raise UnexpectedResponseError(data[:600].decode(errors="replace"))
        found = _LENGTH.search(data, 0, end + 2)
        left = None if found is None else int(found[1]) - (len(data) - end - 4)
        while not data.endswith(_LAST_CHUNK) if left is None else left > 0:
            more = self._read()
            data = data[-len(_LAST_CHUNK) :] + more
            left = None if left is None else left - len(more)

    def _read(self) -> bytes:
        data = self._socket.recv(_SIZE)
        if not data:
            raise UnexpectedResponseError("the API server closed the connection")
        return data

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def send_all(address: Address, requests: Iterable[bytes], clients: int) -> None:
    """Send requests with several clients at once; returns after the last response."""
    send_sequences(address, ((request,) for request in requests), clients)


def send_sequences(address: Address, sequences: Iterable[Sequence[bytes]], clients: int) -> None:
    """Send sequences of requests with several clients at once, each sequence in order by one client."""
    left, lock = iter(sequences), threading.Lock()
    failures: list[Exception] = []

    def take() -> Iterator[bytes]:
        while not failures:
            with lock:
                sequence = next(left, None)
            if sequence is None:
                return
            yield from sequence

    def work() -> None:
        connection = Connection(address)
        try:
            for request in take():
                connection.send(request)
        except (OSError, UnexpectedResponseError) as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class AssignedPods:
    """A watch of the pods of a namespace and label that have a node; their number and the time of the last."""

    def __init__(self, address: Address, namespace: str, label_selector: str) -> None:
        selectors = urlencode({"fieldSelector": "spec.nodeName!=", "labelSelector": label_selector})
        path = f"/api/v1/namespaces/{namespace}/pods?watch=true&resourceVersion=0&{selectors}"
        self._request = address.request("GET", path)
        self._socket = address.connect()
        self._changed = threading.Condition()
        self.count = 0
        self.last = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, count: int, seconds: float) -> float:
        """Wait until so many pods have a node; when the last of them was seen. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.count >= count, seconds):
                raise TimeoutError(f"{self.count} of {count} pods have a node after {seconds:.0f} s")
            return self.last

    def close(self) -> None:
        """End the watch: its reader is woken up before the descriptor can be used for another connection."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            self._socket.sendall(self._request)
            response = HTTPResponse(self._socket)  # which joins chunks: an event may be split between two
            response.begin()
            rest = b""
            while chunk := response.read1(1 << 18):
                data = rest + chunk
                added = data.count(_ADDED)
                rest = data[1 - len(_ADDED) :]
                if added:
                    with self._changed:
                        self.count, self.last = self.count + added, time.perf_counter()
                        self._changed.notify_all()
        except (OSError, HTTPException):
            return


@dataclass(frozen=True, slots=True)
class WrittenEvents:
    """How many events of bound pods a namespace has, and when the last of them was seen."""

    count: int
    last: float


def wait_for_events(address: Address, namespace: str, expected: int) -> WrittenEvents:
    """Wait until a namespace has so many events, or no further one is written; then count those of bound pods.

    They are neither watched nor listed before: that would take time from those who write them.
    """
    connection = HTTPSConnection(address.host, address.port, context=address.context)
    path = f"/api/v1/namespaces/{namespace}/events"
    count, last = 0, time.perf_counter()
    while count < expected and time.perf_counter() - last < _QUIET:
        page = json.loads(_read(connection, f"{path}?limit=1"))
        found = len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
        if found > count:
            count, last = found, time.perf_counter()
        time.sleep(_INTERVAL)
    selector = urlencode({"fieldSelector": "reason=Scheduled"})
    written = _read(connection, f"{path}?{selector}").count(_SCHEDULED)
    connection.close()
    return WrittenEvents(written, last)


def _read(connection: HTTPSConnection, path: str) -> bytes:
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    if response.status != HTTPStatus.OK:
        raise UnexpectedResponseError(body[:600].decode(errors="replace"))
    return body
