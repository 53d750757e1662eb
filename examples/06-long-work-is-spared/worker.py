"""A worker that reports what would be lost with it: seconds of work, as a plain number."""

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Worker:
    """Works on one job after the other; without a job there is nothing to lose."""

    def __init__(self) -> None:
        self.started: float | None = None

    def cost(self) -> int:
        """The seconds since the job began."""
        return 0 if self.started is None else round(time.monotonic() - self.started)

    def serve(self, host: str, port: int) -> int:
        """Serve /cost and return the port. Trimtab needs nothing else of an application."""
        worker = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = str(worker.cost()).encode()
                self.send_response(200 if self.path == "/cost" else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        server = ThreadingHTTPServer((host, port), Answer)
        Thread(target=server.serve_forever, daemon=True).start()
        return server.server_address[1]
