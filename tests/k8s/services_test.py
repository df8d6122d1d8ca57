"""The flag files of the overlay cpu-only, given to the real services: they start, and answer what the probes ask.

In one network there is one machine, so names of Services become 127.0.0.1, and /model a folder of the demo.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

import manifests
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
    """{wanted: a free one}: in a pod each service has the whole network to itself, here it has not."""
    with contextlib.ExitStack() as stack:
        return {port: stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for port in wanted}


class ServicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-k8s.")
        cls.path = pathlib.Path(cls.folder.name)
        (cls.path / "health.proto").write_text(HEALTH)
        cls.ports = free_ports(PORTS)
        cls.processes = {}
        cls.addClassCleanup(cls.end)
        for service in SERVICES:
            cls.start(service)

    @classmethod
    def end(cls):
        for process in cls.processes.values():
            process.kill()
            process.wait()
        cls.folder.cleanup()

    @classmethod
    def start(cls, service):
        text = parsed("cpu-only").flags_map(service)["data"]["flags"]
        model = ROOT / "demo" / ("draft" if service == "draft" else "target")
        text = text.replace("=/model", f"={model}")
        text = re.sub(r":(\d+)$", lambda port: f":{cls.ports[int(port[1])]}", text, flags=re.MULTILINE)
        for name in ("0.0.0.0", "tandem-draft", "tandem-target"):
            text = text.replace(f"{name}:", "127.0.0.1:")
        (cls.path / f"{service}.flags").write_text(text)
        # What the component adds, too; no collector listens, which costs spans alone.
        added = {one["name"]: one.get("value", "a-pod") for one in parsed("observability").container(service)["env"]}
        added = {name: re.sub(r"\$\((\w+)\)", lambda other: added[other[1]], value) for name, value in added.items()}
        added["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{cls.ports[COLLECTOR]}"
        with open(cls.path / f"{service}.log", "wb") as log:
            cls.processes[service] = subprocess.Popen(
                [BINARIES / f"tandem-{service}", f"--flagfile={cls.path}/{service}.flags"], stdout=log, stderr=log,
                env={**os.environ, **added})

    def probe(self, service, kind):
        """Whether a probe of the manifest would be content."""
        grpc = parsed("cpu-only").container(service)[kind]["grpc"]
        done = run(tool("grpcurl"), "-plaintext", "-import-path", self.path, "-proto", "health.proto", "-max-time", "5",
                   "-d", json.dumps({"service": grpc.get("service", "")}), f"127.0.0.1:{self.ports[grpc['port']]}",
                   "grpc.health.v1.Health/Check")
        return done.returncode == 0 and json.loads(done.stdout).get("status") == SERVING

    def wait(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            for service, process in self.processes.items():
                self.assertIsNone(process.poll(), (self.path / f"{service}.log").read_text())
            self.assertLess(time.monotonic(), deadline, "not within a minute")
            time.sleep(0.2)

    def test_1_all_probes_succeed_and_metrics_are_there(self):
        for service in SERVICES:
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                with self.subTest(f"{service}, {kind}"):
                    self.wait(lambda service=service, kind=kind: self.probe(service, kind))
            port = self.ports[parsed("cpu-only").container(service)["ports"][1]["containerPort"]]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                self.assertIn("tandem:build_info", answer.read().decode())

            log = (self.path / f"{service}.log").read_text()
            self.assertRegex(log, r"tracing=\S*127\.0\.0\.1|tracing=\"[^\"]*127\.0\.0\.1", service)

    def test_1_a_flag_file_that_is_wrong_ends_the_start(self):
        for service in SERVICES:
            with self.subTest(service):
                path = self.path / f"{service}-wrong.flags"
                path.write_text((self.path / f"{service}.flags").read_text() + "--no_such_flag=1\n")
                done = run(BINARIES / f"tandem-{service}", f"--flagfile={path}", timeout=60)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("no_such_flag", done.stderr)

    def test_2_without_a_target_the_orchestrator_lives_but_is_not_ready(self):
        self.processes["target"].send_signal(signal.SIGKILL)
        self.processes.pop("target").wait()
        self.wait(lambda: not self.probe("orchestrator", "readinessProbe"))
        self.assertTrue(self.probe("orchestrator", "livenessProbe"))
        self.assertTrue(self.probe("draft", "readinessProbe"))

    def test_3_all_end_within_their_grace(self):
        for service, process in self.processes.items():
            process.send_signal(signal.SIGTERM)
        for service, process in self.processes.items():
            self.assertEqual(process.wait(parsed("cpu-only").pod(service)["terminationGracePeriodSeconds"]), 0, service)


if __name__ == "__main__":
    for needed in ("kustomize", "grpcurl"):
        tool(needed)
    assert manifests.BINARIES.exists(), manifests.BINARIES
    unittest.main(verbosity=2)
