"""The three services with the demo models as processes, requests to them, and what they are watched
with.

Python's own library only. Run by ctest with TANDEM_BINARY_DIR set.
"""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("TANDEM_BINARY_DIR", ROOT / "build/release/bin"))
CACHE = pathlib.Path(
    os.environ.get("TANDEM_CACHE") or
    pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tandem")
PATIENCE = 120  # seconds; conditions decide, not this
sys.path.insert(0, str(ROOT / "scripts"))


def skip(why):
    """Ends this test program; ctest shows it as skipped."""
    print(f"SKIPPED: the whole test: {why}")
    sys.exit(0)


def tool(name):
    """A program of scripts/setup."""
    path = CACHE / "bin" / name
    if not path.exists():
        skip(f"no {name} in {path.parent}; scripts/setup puts it there")
    return str(path)


def eventually(attempt):
    """What `attempt` returns once it raises no AssertionError; the last one after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def free_ports(count):
    """Different ones: all are held at once before the first is given away."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def http_get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def ends_with_parent(words):
    """The command for subprocess: a test that is killed leaves nothing behind.

    `preexec_fn` could say that, too, but with it subprocess forks. gRPC for Python is in some
    tests' processes, and since 1.80 its fork handlers end a forked child now and then ("epoll_wait
    error: Bad file descriptor") before it becomes the program. Without it subprocess calls vfork,
    which runs no handlers.
    """
    return ["setpriv", "--pdeathsig", "KILL", *(str(word) for word in words)]


class Process:
    """A program of its own, both outputs into one file."""

    def __init__(self, words, folder, name, environment=None):
        self.log = pathlib.Path(folder) / f"{name}.log"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ends_with_parent(words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT,
                env={**inherited, **(environment or {})})

    def output(self):
        return self.log.read_text(errors="replace")

    def check_alive(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"it ended with {self.process.returncode}:\n{self.output()}")

    def stop(self):
        """As an operator does; SIGKILL where that does not help. Its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()


class Services:
    """Draft, target and orchestrator, ready when the constructor returns. A context manager."""

    def __init__(self, environment=None, orchestrator_flags=(), encrypted=False, flags=()):
        """`flags`: of each of them."""
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-observability.")
        self.processes = {}
        self.admin = {}
        self.flags = flags
        try:
            admin_ports = free_ports(3)
            tls = self._tls_flags() if encrypted else {"target": [], "draft": [], "orchestrator": []}
            target = self._start("target", admin_ports[0], environment, f"--model={ROOT}/demo/target", *tls["target"])
            draft = self._start("draft", admin_ports[1], environment, f"--model={ROOT}/demo/draft", *tls["draft"])
            self.address = self._start(
                "orchestrator", admin_ports[2], environment, f"--tokenizer={ROOT}/demo/target",
                f"--target={target}", f"--draft={draft}", *tls["orchestrator"], *orchestrator_flags)
            eventually(self._check_ready)
        except BaseException:
            self.__exit__()
            raise

    def _tls_flags(self):
        """Between the services; the orchestrator's own port stays plaintext."""
        certs = pathlib.Path(self.folder.name) / "certs"
        subprocess.run([ROOT / "scripts/certs", certs], check=True, stdout=subprocess.DEVNULL)
        flags = {name: [f"--tls-certificate={certs}/{name}.pem", f"--tls-key={certs}/{name}.key"]
                 for name in ("target", "draft")}
        return {**flags, "orchestrator": [f"--peer-tls-ca={certs}/ca.pem"]}

    def _start(self, name, admin_port, environment, *flags):
        port_file = pathlib.Path(self.folder.name) / f"{name}.port"
        process = Process(
            [BINARIES / f"tandem-{name}", "--listen=127.0.0.1:0", f"--admin-listen=127.0.0.1:{admin_port}",
             f"--port-file={port_file}", *self.flags, *flags], self.folder.name, name, environment)
        self.processes[name] = process
        self.admin[name] = f"127.0.0.1:{admin_port}"

        def check_port():
            process.check_alive()
            assert port_file.exists() and port_file.read_text(), f"{name} does not listen"

        eventually(check_port)
        return f"127.0.0.1:{int(port_file.read_text())}"

    def _check_ready(self):
        for process in self.processes.values():
            process.check_alive()
        # Not sampled, so that it leaves no trace. With a draft, too: what a test sends is to have
        # one.
        reply = self.request(trace_parent=f"00-{'1' * 32}-{'1' * 16}-00", max_tokens=8)
        log = self.processes["orchestrator"].output()
        assert reply.ok, reply.output + log
        assert reply.record.get("draft_tokens", 0), log

    def start_request(self, prompt="Once upon a time", trace_parent=None, **fields):
        """One that runs; `finish_request` takes it."""
        request = {"text": prompt, "max_tokens": 40, "sampling": {"temperature": 0}, "round_records": True,
                   "speculation": {"fixed": 4}, **fields}
        headers = ["-H", f"traceparent: {trace_parent}"] if trace_parent else []
        return subprocess.Popen(
            ends_with_parent([tool("grpcurl"), "-plaintext", *headers, "-d", json.dumps(request), self.address,
                              "tandem.v1.Generation/Generate"]),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def request(self, **fields):
        return finish_request(self.start_request(**fields))

    def stop(self):
        for name in ("orchestrator", "draft", "target"):
            if name in self.processes:
                self.processes[name].stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.folder.cleanup()


class Reply:
    """What came back. Fields as grpcurl writes them: numbers of 64 bits are strings, zeros are
    absent."""

    def __init__(self, output, exit_code):
        self.output = output
        self.ok = exit_code == 0
        self.messages = []
        decoder, position = json.JSONDecoder(), 0
        while self.ok and position < len(output.rstrip()):
            message, position = decoder.raw_decode(output, position)
            self.messages.append(message)
            while position < len(output) and output[position].isspace():
                position += 1

    def of_kind(self, kind):
        return [message[kind] for message in self.messages if kind in message]

    @property
    def started(self):
        return self.of_kind("started")[0]

    @property
    def record(self):
        return self.of_kind("last")[0]["speculation"]

    @property
    def rounds(self):
        return self.of_kind("round")


def finish_request(process, already=""):
    """`already`: what was read of its output before."""
    output = already + process.stdout.read()
    process.stdout.close()
    return Reply(output, process.wait())
