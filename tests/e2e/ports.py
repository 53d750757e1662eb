"""Ports that pages choose, and that a test can have only if no other program does."""

from __future__ import annotations

import socket

import pytest


def skip_unless_free(*ports: int) -> None:
    """Skip the test where another program listens on one of these ports of this machine."""
    for port in ports:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                pytest.skip(f"port {port} is in use on this machine")
