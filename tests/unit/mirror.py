"""A web server on this machine, for tests of downloads."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Mirror:
    """`answers` maps a path to (status, body, announced length)."""

    def __init__(self):
        self.answers: dict[str, tuple[int, bytes, int | None]] = {}
        self.requests: list[str] = []
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                mirror.requests.append(self.path)
                status, body, length = mirror.answers.get(self.path, (404, b"", None))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body) if length is None else length))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def offer(self, prefix: str, contents: dict[str, bytes], cut: int = 0, announce_all: bool = False) -> str:
        for name, content in contents.items():
            body = gzip.compress(content, 1)
            self.answers[f"/{prefix}/{name}.gz"] = (200, body[: len(body) - cut], len(body) if announce_all else None)
        return f"{self.address}/{prefix}/"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
