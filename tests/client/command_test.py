"""The commands of `tandem` on the demo pair, as their users call them."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
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

    def test_log_probabilities_come_with_texts(self):
        words = ["generate", PROMPT, "-n", "8", "--temperature=0", "--logprobs=2", "--prompt-logprobs",
                 self.orchestrator]
        last = json.loads(self.run_tandem(*words, "--format=json").stdout.splitlines()[-1])
        self.assertEqual("".join(last["token_texts"]), last["text"])
        self.assertEqual(bytes(sum(last["token_bytes"], [])).decode(), last["text"])
        self.assertEqual(last["top_logprobs"][0][0]["text"], last["token_texts"][0], "temperature 0")
        self.assertTrue(PROMPT.endswith("".join(last["prompt_logprobs"]["token_texts"])))
        self.assertIn(f'  "{last["token_texts"][1]}"\n', self.run_tandem(*words).stderr)

    # ---- the environment ----

    def test_the_environment_says_where_and_who(self):
        where = {"TANDEM_ORCHESTRATOR": f"127.0.0.1:{self.served.grpc_port}"}
        words = ["generate", PROMPT, "-n", "8", "--temperature=0", "--quiet"]
        text = self.continuation(PROMPT) + "\n"
        self.assertEqual(self.run_tandem(*words, **where).stdout, text)
        self.run_tandem(*words, "--orchestrator=127.0.0.1:1", code=1, **where)
        with tempfile.TemporaryDirectory() as folder:
            tokens = pathlib.Path(folder) / "tokens"
            tokens.write_text("right-4f1c9ab2d07e6653\n")
            with Served(f"--token-file={tokens}") as guarded:
                where = {"TANDEM_ORCHESTRATOR": f"127.0.0.1:{guarded.grpc_port}"}
                self.assertIn("UNAUTHENTICATED", self.run_tandem(*words, code=1, **where).stderr)
                self.assertEqual(self.run_tandem(*words, **where, TANDEM_TOKEN="right-4f1c9ab2d07e6653").stdout, text)
                self.assertEqual(self.run_tandem(*words, **where, TANDEM_TOKEN_FILE=str(tokens)).stdout, text)
                wrong = {**where, "TANDEM_TOKEN": "wrong-4f1c9ab2d07e6653"}
                self.assertIn("UNAUTHENTICATED", self.run_tandem(*words, code=1, **wrong).stderr)
                self.assertEqual(self.run_tandem(*words, f"--token-file={tokens}", **wrong).stdout, text)
                short = self.run_tandem(*words, code=2, **where, TANDEM_TOKEN="short").stderr
                self.assertIn("TANDEM_TOKEN: a token of 5 characters", short)


if __name__ == "__main__":
    unittest.main()
