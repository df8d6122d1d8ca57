"""The flag files of the overlay observability, given to the real services: they start, and answer
what the probes ask."""

import pathlib
import re
import signal
import time
import unittest
import urllib.request

import manifests
import pods
from manifests import BINARIES, SERVICES, parsed, run, seconds, tool
from policies_services import adapter_rules

OVERLAY = "observability"  # no collector listens, which costs spans alone


class ServicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pods = pods.Pods(OVERLAY)
        cls.addClassCleanup(cls.pods.close)
        for service in SERVICES:
            cls.pods.start(service)

    def test_1_all_probes_succeed_and_metrics_are_there(self):
        exposed = ""
        for service in SERVICES:
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                with self.subTest(f"{service}, {kind}"):
                    self.pods.wait(lambda service=service, kind=kind: self.pods.probe(service, kind))
            port = self.pods.ports[parsed(OVERLAY).container(service)["ports"][1]["containerPort"]]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
            self.assertIn("tandem:build_info", text)
            exposed += text
            self.assertRegex(self.pods.log(service), r"tracing=\S*tandem-collector|tracing=\"[^\"]*tandem-collector", service)
        for rule in adapter_rules(parsed(OVERLAY)):
            for metric in re.findall(r"tandem:\w+", f"{rule['seriesQuery']} {rule['metricsQuery']}"):
                self.assertIn(f"# TYPE {metric} ", exposed)
        self.assertNotIn("# TYPE tandem:target_busy_seconds ", exposed)

    def test_1_a_flag_file_that_is_wrong_ends_the_start(self):
        for service in SERVICES:
            with self.subTest(service):
                path = pathlib.Path(self.pods.path) / f"{service}-wrong.flags"
                path.write_text(next(self.pods.files(service)).read_text() + "--no-such-flag=1\n")
                done = run(BINARIES / f"tandem-{service}", f"--flagfile={path}", timeout=60)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("no-such-flag", done.stderr)

    def test_2_without_a_target_the_orchestrator_lives_but_is_not_ready(self):
        self.pods.processes["target"].send_signal(signal.SIGKILL)
        self.pods.processes.pop("target").wait()
        self.pods.wait(lambda: not self.pods.probe("orchestrator", "readinessProbe"))
        self.assertTrue(self.pods.probe("orchestrator", "livenessProbe"))
        self.assertTrue(self.pods.probe("draft", "readinessProbe"))

    def test_3_with_the_target_back_it_is_ready_and_told_to_stop_it_is_not_but_takes_a_request(self):
        self.pods.start("target")
        self.pods.wait(lambda: self.pods.probe("orchestrator", "readinessProbe"))
        orchestrator = self.pods.processes.pop("orchestrator")
        begin = time.monotonic()
        orchestrator.send_signal(signal.SIGTERM)
        while self.pods.probe("orchestrator", "readinessProbe"):
            time.sleep(0.1)
        done = run(BINARIES / "tandem", "generate", f"--orchestrator=127.0.0.1:{self.pods.ports[50050]}",
                   "--prompt=Once upon a time", "--max-tokens=8")
        if time.monotonic() - begin < seconds(parsed(OVERLAY).flags("orchestrator")["drain-delay"]):
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(orchestrator.wait(parsed(OVERLAY).pod("orchestrator")["terminationGracePeriodSeconds"]), 0)

    def test_4_the_others_end_within_their_grace(self):
        for process in self.pods.processes.values():
            process.send_signal(signal.SIGTERM)
        for service, process in self.pods.processes.items():
            self.assertEqual(process.wait(parsed(OVERLAY).pod(service)["terminationGracePeriodSeconds"]), 0, service)


if __name__ == "__main__":
    for needed in ("kustomize", "grpcurl"):
        tool(needed)
    assert manifests.BINARIES.exists(), manifests.BINARIES
    unittest.main(verbosity=2)
