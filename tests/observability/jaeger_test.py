"""Requests through the three services, each a process, as a real Jaeger sees them over OTLP.

Jaeger is that of scripts/jaeger: the container image, or built from source. This test builds none.
"""

import secrets
import subprocess
import unittest

import services
from services import eventually, finish_request

import traces

STAGES = ("draft", "network", "slot", "queue", "device", "own")
# A busy machine is neither a late draft nor a lost target: each round has one verdict, most have a
# block.
PATIENT = ("--watchdog-min=60s", "--draft-wait=10s", "--draft-wait-floor=10s")
SERVICES = {"tandem-orchestrator", "tandem-draft", "tandem-target"}


def new_parent(sampled=True):
    return secrets.token_hex(16), secrets.token_hex(8), "01" if sampled else "00"


class Jaeger(services.Process):
    """On ports of its own."""

    def __init__(self, folder):
        self.otlp_port, self.ui_port = services.free_ports(2)
        self.ports = [f"--otlp-port={self.otlp_port}", f"--ui-port={self.ui_port}"]
        super().__init__([services.ROOT / "scripts/jaeger", "run", *self.ports], folder, "jaeger")
        self.url = f"http://127.0.0.1:{self.ui_port}"
        eventually(self._check_answers)

    def _check_answers(self):
        self.check_alive()
        try:
            traces.get("/api/services", self.url)
        except traces.Unreachable as error:
            raise AssertionError(str(error)) from error

    def environment(self):
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.otlp_port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def kill(self):
        # Through the script, which knows whether it is a container.
        subprocess.run([services.ROOT / "scripts/jaeger", "stop", "--kill", *self.ports], check=True,
                       stdout=subprocess.DEVNULL)
        self.process.wait(services.PATIENCE)

    def stop(self):
        if self.process.poll() is None:
            self.kill()


class TraceTest(unittest.TestCase):
    """All requests go to the same services and the same Jaeger."""

    @classmethod
    def setUpClass(cls):
        cls.folder = services.tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.jaeger = Jaeger(cls.folder.name)
        cls.addClassCleanup(cls.jaeger.stop)
        cls.services = cls.enterClassContext(services.Services(cls.jaeger.environment(), PATIENT))

    def wait_for(self, trace_id, reply):
        """The trace and its passes, once Jaeger has what the reply's rounds must have left
        there."""

        def look():
            raw = traces.fetch(trace_id, self.jaeger.url)
            self.assertIsNotNone(raw, "no such trace")
            trace = traces.Trace(raw)
            drafted = sum(1 for one in reply.rounds if one.get("draft_tokens", 0))
            self.assertEqual(len(trace.named("generate")), 1)
            self.assertGreaterEqual(len(trace.named("target.step")), len(reply.rounds))
            self.assertGreaterEqual(len(trace.named("draft_service.propose")), drafted)
            passes = traces.passes(trace, self.jaeger.url)
            wanted = {link for step in trace.named("target.step") for link in step.links}
            self.assertEqual(set(passes), wanted, "passes that have not come")
            return trace, passes

        return eventually(look)

    def child(self, span, name):
        found = [child for child in span.children if child.name == name]
        self.assertEqual(len(found), 1, f"{name} below {span.name} {span.tags}")
        return found[0]

    def check_tree(self, reply, trace_id, parent_id):
        """The whole contract of a request's trace against the records that the client got."""
        self.assertTrue(reply.ok, reply.output)
        self.assertEqual(reply.started["trace_id"], trace_id)
        trace, passes = self.wait_for(trace_id, reply)
        self.assertEqual({span.service for span in trace.spans}, SERVICES)
        self.assertEqual(len(trace.roots), 1, [span.name for span in trace.roots])
        generate = trace.roots[0]
        self.assertEqual(generate.name, "generate")
        self.assertEqual(generate.service, "tandem-orchestrator")
        self.assertEqual(generate.parent_id, parent_id)
        self.assertEqual(generate.tags["tandem.request_id"], reply.started["request_id"])

        rounds = sorted(trace.named("round"), key=lambda span: span.tags["tandem.round"])
        self.assertEqual(len(rounds), reply.record["rounds"])
        self.assertEqual(len(rounds), len(reply.rounds))
        for number, (span, record) in enumerate(zip(rounds, reply.rounds)):
            with self.subTest(round=number):
                self.assertIs(span.parent, generate)
                self.check_round(span, record, number, passes)
        self.assertEqual(sum(span.tags["tandem.accepted_tokens"] for span in rounds), reply.record["accepted_tokens"])
        return trace, passes

    def check_round(self, span, record, number, passes):
        self.assertEqual(span.tags["tandem.round"], number)
        self.assertEqual(record.get("number", 0), number)
        for name in ("draft_tokens", "accepted_tokens", "tokens"):
            self.assertEqual(span.tags[f"tandem.{name}"], record.get(name, 0), name)
        for stage in STAGES:
            self.assertEqual(span.tags[f"tandem.stage.{stage}_us"],
                             int(record.get("stages", {}).get(f"{stage}_us", 0)), stage)
        # Each is rounded to whole microseconds.
        self.assertAlmostEqual(sum(span.tags[f"tandem.stage.{stage}_us"] for stage in STAGES), span.duration,
                               delta=len(STAGES) + 2)
        if record.get("draft_tokens", 0):
            propose = self.child(span, "draft.propose")
            self.assertEqual(propose.service, "tandem-orchestrator")
            self.assertEqual(self.child(propose, "draft_service.propose").service, "tandem-draft")
        verify = self.child(span, "verify")
        self.assertEqual(verify.service, "tandem-orchestrator")
        step = self.child(verify, "target.step")
        self.assertEqual(step.service, "tandem-target")

        self.assertEqual(len(step.links), 1, "a Step is decided by exactly one pass")
        decided_by = passes[step.links[0]]
        self.assertEqual(decided_by.name, "target.pass")
        self.assertEqual(decided_by.service, "tandem-target")
        self.assertIsNone(decided_by.parent_id)
        self.assertNotEqual(decided_by.trace_id, span.trace_id, "a pass is a trace of its own")
        self.assertIn((verify.trace_id, verify.id), decided_by.links)
        for one in (span, step, decided_by):
            self.assertEqual(int(one.tags["tandem.pass_id"]), int(record["pass_id"]), one.name)
        self.assertEqual(decided_by.tags["tandem.pass_rows"], record["pass_rows"])
        self.assertEqual(decided_by.tags["tandem.pass_sequences"], record["pass_sequences"])
        self.assertGreaterEqual(decided_by.tags["tandem.pass_sequences"], len(decided_by.links))

    def test_a_request_is_one_tree_below_the_clients_span(self):
        trace_id, span_id, flags = new_parent()
        reply = self.services.request(trace_parent=f"00-{trace_id}-{span_id}-{flags}")
        trace, _ = self.check_tree(reply, trace_id, span_id)
        self.assertGreater(len(trace.named("draft_service.propose")), 0)
        self.assertTrue(trace.whole())
        # By the names that people look for.
        for service in SERVICES:
            self.assertIn(service, traces.get("/api/services", self.jaeger.url))
        latest = traces.latest(self.jaeger.url, limit=50)
        self.assertIn(trace_id, [raw["traceID"] for raw in latest])

    def test_the_script_shows_it(self):
        reply = self.services.request(max_tokens=20)
        trace, _ = self.check_tree(reply, reply.started["trace_id"], None)

        def tree_of(*words):
            return subprocess.run([services.ROOT / "scripts/trace-tree", trace.id, f"--jaeger={self.jaeger.url}", *words],
                                  capture_output=True, text=True, check=True).stdout

        tree = tree_of("--wait=30")
        for span in trace.spans:
            self.assertIn(f"{span.name} ", tree)
        # A line a span, and two around them.
        self.assertEqual(len(tree.splitlines()), len(trace.spans) + 2, tree)
        short = tree_of("--rounds=2")
        self.assertIn(f"… {len(reply.rounds) - 2} more rounds", short)

    def test_without_a_parent_a_trace_begins_here(self):
        reply = self.services.request(prompt="The harbour was", max_tokens=12)
        self.assertTrue(reply.ok, reply.output)
        self.check_tree(reply, reply.started["trace_id"], None)

    def test_ten_at_once_are_ten_trees_whose_passes_link_to_no_others(self):
        parents = [new_parent() for _ in range(10)]
        running = [
            self.services.start_request(prompt=f"Chapter {number}", trace_parent="00-" + "-".join(parent))
            for number, parent in enumerate(parents)
        ]
        replies = [finish_request(process) for process in running]
        verifies, passes = set(), {}
        for reply, (trace_id, span_id, _) in zip(replies, parents):
            trace, its_passes = self.check_tree(reply, trace_id, span_id)
            verifies |= {(span.trace_id, span.id) for span in trace.named("verify")}
            passes |= its_passes
        # Nothing else ran: what a pass links to is theirs, and it was sampled for them alone.
        for decided_by in passes.values():
            self.assertLessEqual(set(decided_by.links), verifies)
            self.assertEqual(len(decided_by.links), len(set(decided_by.links)))

    def test_what_the_client_does_not_sample_is_not_there(self):
        hidden, span_id, flags = new_parent(sampled=False)
        reply = self.services.request(trace_parent=f"00-{hidden}-{span_id}-{flags}", max_tokens=8)
        self.assertTrue(reply.ok, reply.output)
        # One after it has come whole, so that this one would have, too.
        trace_id, span_id, flags = new_parent()
        later = self.services.request(trace_parent=f"00-{trace_id}-{span_id}-{flags}", max_tokens=8)
        self.check_tree(later, trace_id, span_id)
        self.assertIsNone(traces.fetch(hidden, self.jaeger.url))


class JaegerDiesTest(unittest.TestCase):
    def test_requests_go_on_and_the_log_says_it_once(self):
        with services.tempfile.TemporaryDirectory() as folder:
            jaeger = Jaeger(folder)
            self.addCleanup(jaeger.stop)
            with services.Services(jaeger.environment(), PATIENT) as running:
                request = running.start_request(max_tokens=300, stop={"ignore_eos": True})
                begun = ""
                while '"delta"' not in begun:
                    line = request.stdout.readline()
                    self.assertTrue(line, begun)
                    begun += line
                jaeger.kill()
                reply = finish_request(request, begun)
                self.assertTrue(reply.ok, reply.output)
                self.assertEqual(reply.of_kind("last")[0]["usage"]["completion_tokens"], 300)

                orchestrator = running.processes["orchestrator"]

                def warnings():
                    return [line for line in orchestrator.output().splitlines()
                            if "spans are lost" in line or "OTLP" in line]

                eventually(lambda: self.assertTrue(warnings(), orchestrator.output()))
                for _ in range(3):
                    self.assertTrue(running.request().ok)
                # Its goodbye fails, too, and says nothing more.
                self.assertEqual(orchestrator.stop(), 0, orchestrator.output())
                self.assertEqual(len(warnings()), 1, orchestrator.output())


if __name__ == "__main__":
    if subprocess.run([services.ROOT / "scripts/jaeger", "get", "--check"], check=False).returncode != 0:
        services.skip("no Jaeger here; `scripts/jaeger get` fetches or builds one")
    services.tool("grpcurl")
    unittest.main(verbosity=2)
