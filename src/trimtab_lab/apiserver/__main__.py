"""`python -m trimtab_lab.apiserver`: run the lab's API server until it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User
from trimtab_lab.apiserver.wire.certificates import ADMIN, MASTERS
from trimtab_lab.apiserver.wire.server import Server

_STATE = Path(".trimtab-lab")


def main() -> None:
    """Read the command line, and serve."""
    options = _parser().parse_args()
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.INFO, format="%(levelname)s %(message)s")
    try:
        asyncio.run(_serve(options.state, options.host, options.port, options.token))
    except OSError as error:
        sys.exit(f"cannot serve on {options.host}:{options.port}: {error.strerror or error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trimtab_lab.apiserver",
        description="Run a Kubernetes API server on this machine. Objects are kept in memory and are lost when it "
        "ends. It listens on loopback only; every user of its kubeconfig may do everything.",
    )
    parser.add_argument(
        "--port", type=int, default=6443, help="the port to listen on; 0 takes a free one (%(default)s)"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", choices=["127.0.0.1", "::1"], help="which loopback (%(default)s)"
    )
    parser.add_argument(
        "--state", type=Path, default=_STATE, help="where certificates and the kubeconfig are kept (%(default)s)"
    )
    parser.add_argument("--token", help="accept this bearer token, besides client certificates")
    parser.add_argument("--verbose", action="store_true", help="log more")
    return parser


async def _serve(state: Path, host: str, port: int, token: str | None) -> None:
    tokens = {token: User(ADMIN, (MASTERS, AUTHENTICATED))} if token else {}
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with Server(state, host=host, port=port, tokens=tokens) as server:
        sys.stdout.write(_next_steps(server))
        sys.stdout.flush()
        await stopped.wait()


def _next_steps(server: Server) -> str:
    return (
        f"The lab's API server is at {server.url}. Objects are kept in memory until it ends (Ctrl-C).\n\n"
        "In another terminal:\n\n"
        f"    export KUBECONFIG={server.kubeconfig.resolve()}\n"
        "    kubectl get namespaces\n"
        "    kubectl create deployment web --image=nginx --replicas=3\n"
    )


if __name__ == "__main__":
    main()
