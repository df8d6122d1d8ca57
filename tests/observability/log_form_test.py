"""Every line that the services write, from a start to a stop, has the one form of the log.

Among them are lines of gRPC, of OpenTelemetry and of what clients sent.
"""

import json
import pathlib
import re
import tempfile
import unittest

from services import BINARIES, ROOT, Process, Services, eventually

TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) [\w./-]+:\d+ ")
# Quotes, a line break, characters that end a line elsewhere, and a member of its own.
HOSTILE = "a\"}\n{\"level\": \"ERROR\" \\ \u2028 \u0001 \U0001f600 end"
NOISY = {
    "GRPC_VERBOSITY": "info",  # gRPC's own lines
    # Nobody listens there.
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "always_on",
    "OTEL_BSP_SCHEDULE_DELAY": "50"}


def lines(process):
    return [line for line in process.log.read_bytes().split(b"\n") if line]


class LogForm(unittest.TestCase):
    def json_of(self, process):
        parsed = []
        for line in lines(process):
            with self.subTest(line=line):
                self.assertEqual(line.count(b"\r"), 0)
                entry = json.loads(line.decode("utf-8"), object_pairs_hook=self.unique)
                self.assertRegex(entry["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
                self.assertIn(entry["level"], ("INFO", "WARNING", "ERROR"))
                self.assertRegex(entry["source"], r"^[\w./-]+:\d+$")
                self.assertTrue(("event" in entry) or set(entry) == {"time", "level", "source", "message"}, entry)
                parsed.append(entry)
        return parsed

    def unique(self, members):
        names = [name for name, _ in members]
        self.assertEqual(len(names), len(set(names)), names)
        return dict(members)

    def test_the_three_services(self):
        with Services(NOISY, flags=["--log-format=json"]) as all_of_them:
            reply = all_of_them.request(user=HOSTILE, request_id="17", max_tokens=4)
            self.assertTrue(reply.ok, reply.output)
            self.assertFalse(all_of_them.request(speculation={"drafter": HOSTILE}).ok)
            # A second orchestrator, which stops before the target does: each of the two ends the
            # stream once.
            second = Process(
                [BINARIES / "tandem-orchestrator", f"--tokenizer={ROOT}/demo/target", "--listen=127.0.0.1:0",
                 f"--target={self.target_of(all_of_them)}", "--log-format=json"], all_of_them.folder.name, "second")
            try:
                eventually(lambda: self.assertIn('"event": "ready"', second.output()))
            finally:
                self.assertEqual(second.stop(), 0)
            all_of_them.processes["target"].stop()
            all_of_them.stop()
            self.json_of(second)
            entries = {name: self.json_of(process) for name, process in all_of_them.processes.items()}
        for name, its in entries.items():
            with self.subTest(name):
                events = [entry.get("event") for entry in its]
                for event in ("start", "ready", "draining", "stopped"):
                    self.assertIn(event, events)
        everything = [entry for its in entries.values() for entry in its]
        self.assertTrue(any("OpenTelemetry" in entry.get("message", "") or "spans are lost" in entry.get("message", "")
                            for entry in everything), "no line of OpenTelemetry")
        self.assertTrue(any(entry.get("event") == "grpc" for entry in everything), "no line of gRPC")
        (request,) = [entry for entry in everything if entry.get("id") == "17"]
        self.assertEqual((request["user"], request["output_tokens"]), (HOSTILE, 4))
        self.assertIsInstance(request["total_ms"], (int, float))
        gone = [entry for entry in entries["target"] if entry.get("event") == "client_gone"]
        self.assertEqual(len(gone), 2, gone)
        self.assertEqual([entry["broken"] for entry in gone], [False, False], gone)

    @staticmethod
    def target_of(all_of_them):
        (start,) = [json.loads(line) for line in lines(all_of_them.processes["orchestrator"])
                    if b'"event": "start"' in line]
        return start["targets"]

    def serve(self, *flags, environment=None):
        with tempfile.TemporaryDirectory() as folder:
            process = Process([BINARIES / "tandem", "serve", f"--target-model={ROOT}/demo/target",
                               f"--draft-model={ROOT}/demo/draft", "--listen=127.0.0.1:0",
                               f"--port-file={folder}/port", *flags], folder, "serve", environment)
            try:
                eventually(lambda: self.assertTrue((pathlib.Path(folder) / "port").exists()))
            finally:
                code = process.stop()
            self.assertEqual(code, 0, process.output())
            return self.json_of(process) if "--log-format=json" in flags else lines(process)

    def test_all_in_one(self):
        entries = self.serve("--log-format=json", environment=NOISY)
        events = [entry.get("event") for entry in entries]
        for event in ("ready", "draining", "stopped"):
            self.assertIn(event, events)
        self.assertEqual(events[-1], "stopped")
        self.assertTrue(any("the target is loaded" in entry.get("message", "") for entry in entries), entries)
        self.assertFalse([entry for entry in entries if entry.get("broken")])

    def test_text(self):
        written = self.serve(environment=NOISY)
        for line in written:
            self.assertRegex(line.decode(), TEXT)
        self.assertTrue([line for line in written if b" ready port=" in line])
        self.assertFalse([line for line in written if b"broken=true" in line])

    def test_levels(self):
        self.assertEqual([entry for entry in self.serve("--log-format=json", "--log-level=warning")
                          if entry["level"] == "INFO"], [])

    def test_a_start_that_fails(self):
        for words, code in ((["tandem-target", "--model=/no/such"], 1), (["tandem", "serve", "--target-model=/no/such"], 1),
                            (["tandem-target", "--log-format=json", "--colour=red"], 1),
                            (["tandem", "serve", "--log-format=json", "--pool-tokens=x"], 2)):
            with self.subTest(words=words), tempfile.TemporaryDirectory() as folder:
                process = Process([BINARIES / words[0], *words[1:], *([] if "--log-format=json" in words else
                                                                       ["--log-format=json"])], folder, "failed")
                self.assertEqual(process.process.wait(60), code)
                self.assertEqual(self.json_of(process)[-1]["level"], "ERROR")


if __name__ == "__main__":
    unittest.main()
