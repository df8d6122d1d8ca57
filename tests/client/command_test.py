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

    # ---- describe, tokenize ----

    def test_what_the_services_say_of_themselves(self):
        table = self.run_tandem("describe", self.orchestrator).stdout
        lines = table.splitlines()
        self.assertEqual([line.split()[0] for line in lines[:4]], ["service", "orchestrator", "target", "draft"])
        for line in lines[1:4]:
            self.assertIn(" ready", line)
        self.assertRegex(table, r"\n  served model       target\n")
        self.assertRegex(table, r"\n  context length     1024\n")
        self.assertRegex(table, r"\n  rules              greedy, ")
        self.assertRegex(table, r"\n  drafters           model, ")
        told = json.loads(self.run_tandem("describe", self.orchestrator, "--format=json").stdout)
        self.assertEqual((told["version"], told["models"][0]["id"]), (1, "target"))
        target, draft = told["description"]["peers"]
        self.assertEqual((target["role"], draft["role"]), ("ROLE_TARGET", "ROLE_DRAFT"))
        self.assertIn(target["welcome"]["model_id"], table)
        done = self.run_tandem("describe", "--orchestrator=127.0.0.1:1", code=1)
        self.assertIn("no orchestrator answers at 127.0.0.1:1", done.stderr)

    def tokenize(self, *words, **options):
        return self.run_tandem("tokenize", self.orchestrator, *words, **options)

    def test_tokens_of_a_text_and_back(self):
        text = "Naïve <|endoftext|>\n"
        told = json.loads(self.tokenize(text, "--format=json").stdout)
        tokens = told["tokens"]
        self.assertEqual((told["version"], told["count"], told["context_length"]), (1, len(tokens), 1024))
        self.assertEqual(b"".join(bytes(token["bytes"]) for token in tokens), text.encode())
        self.assertIn("<|endoftext|>", [token["text"] for token in tokens])
        ids = self.tokenize(text, "--format=ids").stdout.strip()
        self.assertEqual(ids, ",".join(str(token["id"]) for token in tokens))
        self.assertEqual(self.tokenize(f"--ids={ids}").stdout, "Naïve \n\n")
        back = json.loads(self.tokenize(f"--ids={ids}", "--format=json").stdout)
        self.assertEqual(back, {"version": 1, "text": "Naïve \n"})
        table = self.tokenize("-f", "-", text=text).stdout.splitlines()
        self.assertEqual(len(table), len(tokens))
        self.assertRegex(table[-1], r'^ *\d+ +\d+  "\\n"$')
        plain = self.tokenize(text, "--parse-special-tokens=false", "--format=json").stdout
        self.assertNotIn("<|endoftext|>", [token["text"] for token in json.loads(plain)["tokens"]])
        done = self.tokenize("--ids=999999", code=1)
        self.assertIn("token_ids: ", done.stderr)
        self.assertIn("give the text", self.tokenize(code=2).stderr)
        self.assertIn("give only one of them", self.tokenize("x", "--ids=1", code=2).stderr)

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
