"""The services of an overlay as processes: its flag files, its variables, its mounts as folders.

In one network there is one machine: a Service's name is 127.0.0.1 (by tests/deploy/name_lookup.cc,
in these processes alone), and its ports are any free ones.
"""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

from manifests import BINARIES, ROOT, SERVICES, parsed, run, tool

HEALTH = """
syntax = "proto3";
package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse { int32 status = 1; }
service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }
"""
SERVING = 1
COLLECTOR = 4317
PORTS = (50050, 50051, 50052, 9050, 9051, 9052, COLLECTOR)


def free_ports(wanted):
    """{wanted: a free one}: in a pod each service has the whole network to itself, here it has
    not."""
    with contextlib.ExitStack() as stack:
        return {port: stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for port in wanted}


NAME_LOOKUP = pathlib.Path(os.environ.get("TANDEM_TEST_NAME_LOOKUP") or
                           BINARIES.parent / "tests/deploy/libtandem_test_name_lookup.so")


class Pods:
    """Ends with `close`. `mounts`: {service: {where it is mounted: the folder here}}, beside
    /model."""

    def __init__(self, overlay, mounts=None):
        self.overlay = overlay
        self.mounts = mounts or {}
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-k8s.")
        self.path = pathlib.Path(self.folder.name)
        (self.path / "health.proto").write_text(HEALTH)
        (self.path / "names").write_text("".join(f"127.0.0.1 tandem-{name}\n" for name in (*SERVICES, "collector")))
        self.ports = free_ports(PORTS)
        self.processes = {}

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.folder.cleanup()

    def environment(self):
        assert NAME_LOOKUP.exists(), NAME_LOOKUP
        # gRPC's other resolver asks name servers by itself.
        return {**os.environ, "LD_PRELOAD": str(NAME_LOOKUP), "TANDEM_TEST_NAMES": str(self.path / "names"),
                "GRPC_DNS_RESOLVER": "native"}

    def files(self, service):
        """Its flag files, as this machine has to read them."""
        model = ROOT / "demo" / ("draft" if service == "draft" else "target")
        for name, text in parsed(self.overlay).flags_map(service)["data"].items():
            for where, folder in {"/model": model, **self.mounts.get(service, {})}.items():
                text = re.sub(rf"={where}(?=/|$)", f"={folder}", text, flags=re.MULTILINE)
            text = re.sub(r":(\d+)$", lambda port: f":{self.ports[int(port[1])]}", text, flags=re.MULTILINE)
            path = self.path / f"{service}.{name}"
            path.write_text(text.replace("=0.0.0.0:", "=127.0.0.1:"))
            yield path

    def start(self, service):
        values = {one["name"]: one.get("value", "a-pod") for one in parsed(self.overlay).container(service).get("env", [])}
        values = {name: re.sub(r"\$\((\w+)\)", lambda other: values[other[1]], value).replace(
            f":{COLLECTOR}", f":{self.ports[COLLECTOR]}") for name, value in values.items()}
        with open(self.path / f"{service}.log", "wb") as log:
            self.processes[service] = subprocess.Popen(
                [BINARIES / f"tandem-{service}", *(f"--flagfile={path}" for path in self.files(service))],
                stdout=log, stderr=log, env={**self.environment(), **values})

    def log(self, service):
        return (self.path / f"{service}.log").read_text()

    def probe(self, service, kind):
        """Whether a probe of the manifest would be content."""
        grpc = parsed(self.overlay).container(service)[kind]["grpc"]
        done = run(tool("grpcurl"), "-plaintext", "-import-path", self.path, "-proto", "health.proto", "-max-time", "5",
                   "-d", json.dumps({"service": grpc.get("service", "")}), f"127.0.0.1:{self.ports[grpc['port']]}",
                   "grpc.health.v1.Health/Check")
        return done.returncode == 0 and json.loads(done.stdout).get("status") == SERVING

    def wait(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            for service, process in self.processes.items():
                assert process.poll() is None, self.log(service)
            assert time.monotonic() < deadline, {service: self.log(service)[-2000:] for service in self.processes}
            time.sleep(0.2)
