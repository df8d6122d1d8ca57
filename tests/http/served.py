"""`tandem serve` on the demo pair with both its ports, and what asks them."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/observability"))
import services  # noqa: E402
from services import BINARIES, eventually  # noqa: E402

PROMPT = "The city was"


def demo_target_with(template, folder):
    """The demo target with another chat template, as links in `folder`."""
    target = demo_target_without(None, folder)
    (target / "chat_template.jinja").write_text(template)
    return target


def demo_target_without(name, folder):
    """The demo target without the file of that name, as links in `folder`."""
    target = pathlib.Path(folder) / "target"
    target.mkdir()
    for path in (ROOT / "demo/target").iterdir():
        if path.name != name:
            (target / path.name).symlink_to(path)
    return target


class Address:
    """A port of this machine that speaks HTTP."""

    def __init__(self, http_port):
        self.http_port = http_port

    def url(self, path):
        return f"http://127.0.0.1:{self.http_port}{path}"

    def get(self, path, headers=None):
        """The status, and the body: as JSON where it is."""
        return self._ask(urllib.request.Request(self.url(path), headers=headers or {}))

    def post(self, path, body, headers=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._ask(urllib.request.Request(
            self.url(path), data, {"Content-Type": "application/json", **(headers or {})}))

    def _ask(self, request):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except json.JSONDecodeError:
            return status, text


class Served(Address):
    """Ready when the constructor returns. A context manager."""

    def __init__(self, *flags, target=ROOT / "demo/target"):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-http.")
        folder = self.folder.name
        self.process = services.Process(
            [BINARIES / "tandem-model", "serve", f"--target-model={target}",
             f"--draft-model={ROOT}/demo/draft", "--listen=127.0.0.1:0", f"--port-file={folder}/grpc",
             "--http-listen=127.0.0.1:0", f"--http-port-file={folder}/http", *flags], folder, "serve")
        try:
            self.grpc_port = int(eventually(lambda: self._read("grpc")))
            super().__init__(int(eventually(lambda: self._read("http"))))
        except BaseException:
            self.__exit__()
            raise

    def _read(self, name):
        self.process.check_alive()
        path = pathlib.Path(self.folder.name) / name
        assert path.exists() and path.read_text().strip(), f"no {name} port yet"
        return path.read_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        code = self.process.stop()
        self.folder.cleanup()
        return None if code == 0 else False

    def raw(self, data, patience=60):
        """All that comes back over one connection until it is closed."""
        with socket.create_connection(("127.0.0.1", self.http_port), timeout=patience) as connection:
            connection.sendall(data)
            answer = b""
            while more := connection.recv(65536):
                answer += more
            return answer

    def grpc(self, *flags):
        """What `tandem generate` says at the end, over gRPC."""
        words = [BINARIES / "tandem", "generate", f"--orchestrator=127.0.0.1:{self.grpc_port}", "--format=json",
                 *flags]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120,
                              check=False, env={**os.environ})
        assert done.returncode == 0, done.stderr
        last = json.loads(done.stdout.strip().splitlines()[-1])
        assert last["final"], last
        return last

    def metric(self, name):
        _, text = self.get("/metrics")
        found = re.search(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return float(found.group(1)) if found else None

    def check_idle(self):
        """Every request is gone, from the front to the target."""
        assert self.metric("tandem:open_calls") == 0, self.get("/metrics")[1]
        assert self.metric("tandem:unread_bytes") == 0
