"""The commands of `tandem` on the demo pair, as their users call them."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))
from served import PROMPT, Served, services  # noqa: E402

TANDEM = str(services.BINARIES / "tandem")


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served()
        cls.orchestrator = f"--orchestrator=127.0.0.1:{cls.served.grpc_port}"

    @classmethod
    def tearDownClass(cls):
        cls.served.__exit__()

    def run_tandem(self, *words, text="", code=0, **environment):
        done = subprocess.run([TANDEM, *words], input=text, capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def continuation(self, prompt):
        return self.served.grpc(f"--prompt={prompt}", "--temperature=0", "--max-tokens=8")["text"]

    # ---- generate ----

    def test_the_prompt_as_others_write_it(self):
        text = self.continuation(PROMPT) + "\n"
        words = ["--temperature=0", "-n", "8", self.orchestrator]
        for prompt in ([PROMPT], ["-p", PROMPT], ["-f", "-"]):
            self.assertEqual(self.run_tandem("generate", *prompt, *words, text=PROMPT).stdout, text)
        done = self.run_tandem("generate", *words, "--quiet", "--", PROMPT)
        self.assertEqual((done.stdout, done.stderr), (text, ""))
        done = self.run_tandem("generate", "The", "city", *words, code=2)
        self.assertIn("'city' is one text too many; put quotes around one with blanks", done.stderr)


if __name__ == "__main__":
    unittest.main()
