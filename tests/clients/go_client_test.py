"""The Go example, built as its users build it, and ghz: other implementations of gRPC against the
services.

Go's modules come from the module proxy, once a user.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))
from served import PROMPT, Served, eventually, services  # noqa: E402

for program in ("protoc-gen-go", "protoc-gen-go-grpc"):
    services.tool(program)
GHZ = services.tool("ghz")
PROJECT = services.ROOT / "clients/go"


def find_go():
    done = subprocess.run(["bash", "-c", "source scripts/lib.sh; find_go"], cwd=services.ROOT, capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() or services.skip("no Go that is new enough")


def run(words, folder, **environment):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": f"{services.CACHE}/bin:{os.environ['PATH']}", **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class OtherClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served()
        cls.address = f"127.0.0.1:{cls.served.grpc_port}"

    @classmethod
    def tearDownClass(cls):
        cls.served.__exit__()

    def test_the_go_example(self):
        go = find_go()
        with tempfile.TemporaryDirectory() as folder:
            for name in ("main.go", "go.mod", "go.sum"):
                shutil.copy(PROJECT / name, folder)
            run([PROJECT / "generate", folder], folder)
            environment = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -modcacherw"}
            run([go, "vet", "./..."], folder, **environment)
            run([go, "build", "-o", "stream", "."], folder, **environment)
            output = run(["./stream", self.address], folder)
        there = self.served.grpc(f"--prompt={PROMPT}", "--max-tokens=60", "--seed=7", "--temperature=0.8",
                                 # The policy may say 0, and the text is the same.
                                 "--draft-tokens=3")
        self.assertTrue(output.startswith(f"{there['text']}\n\n"), output)
        record = there["speculation"]
        self.assertRegex(output, r"\n\d+ of \d+ draft tokens accepted\n$")
        self.assertGreater(record["draft_tokens"], 0)

    def ghz(self, data, count=200):
        """The report; ghz learns the API by reflection."""
        output = run([GHZ, "--insecure", "--call=tandem.v1.Generation/Generate", f"--data={json.dumps(data)}",
                      f"--total={count}", "--concurrency=20", "--connections=4", "--timeout=60s", "--format=json",
                      self.address], services.ROOT)
        report = json.loads(output)
        self.assertEqual(report["count"], count)
        return report["statusCodeDistribution"]

    def test_many_calls_of_ghz(self):
        request = {"text": PROMPT, "max_tokens": 4, "sampling": {"temperature": 1}}
        self.assertEqual(self.ghz(request), {"OK": 200})
        self.assertEqual(self.ghz({**request, "samples": 17}), {"InvalidArgument": 200})
        eventually(self.served.check_idle)


if __name__ == "__main__":
    unittest.main()
