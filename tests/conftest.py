"""Shared fixtures: a pool of gloo ranks per world size, and one torch thread."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings
from rank_pool import Pools

# how long an example takes depends on what else runs on the cores
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def ranks() -> Iterator[Pools]:
    """`ranks(3, function, *args)` runs a module-level function on 3 gloo ranks: a list of results by rank."""
    pools = Pools()
    yield pools
    pools.close()


@pytest.fixture(autouse=True)
def _outside_any_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "HEMOSTAT_RUN_DIR",
        "HEMOSTAT_RUN_ID",
        "TORCHELASTIC_RUN_ID",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def disk_of(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """`disk_of("64k")` is a folder on a real disk of so many bytes; the test is skipped where none may be mounted."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if subprocess.run(words, check=False, capture_output=True).returncode:
            pytest.skip("mounting is not permitted here")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def webhook() -> Iterator[SimpleNamespace]:
    """A web server that keeps what is posted: `url` for apprise, `got` decoded, `answer` the status it gives."""
    kept = SimpleNamespace(got=[], answer=200)

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(kept.answer)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    kept.url = f"json://user:hunter2@127.0.0.1:{server.server_port}/secret-path"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield kept
    server.shutdown()
    server.server_close()


@pytest.fixture
def mail_server() -> Iterator[SimpleNamespace]:
    """A mail server that keeps its letters: `url` for apprise, `got` as text."""
    from aiosmtpd.controller import Controller

    kept = SimpleNamespace(got=[])

    class Box:
        async def handle_DATA(self, server: object, session: object, envelope: SimpleNamespace) -> str:
            kept.got.append(envelope.content.decode())
            return "250 OK"

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(Box(), hostname="127.0.0.1", port=port)
    controller.start()
    kept.url = f"mailto://127.0.0.1:{port}?from=run@example.org&to=me@example.org&mode=insecure"
    yield kept
    controller.stop()
