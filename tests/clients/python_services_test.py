"""The Python client, its examples and gRPC's own stub, against real services with the demo pair.

Ids are those that `tandem generate` and HTTP give for the same seed.
"""

import asyncio
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import unittest

from package import PACKAGE, PROJECT, services
from served import PROMPT, Served, demo_target_with, eventually
import grpc
import tandem_client
from tandem_client import AsyncClient, Client, Tls, v1
from tandem_client.v1 import generation_pb2_grpc

TEMPLATE = """{% for message in messages %}<{{ message.role }}> {{ message.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where was the city?"}]
LONG = {"max_tokens": 900, "samples": 8, "ignore_eos": True, "temperature": 1.0, "seed": 3}
# Options of the client, and the flags of `tandem generate` that ask for the same.
# Rule coupled, which a seed implies: under the others the draws depend on when a block came.
OPTIONS = [
    ({"temperature": 0}, ["--temperature=0"]),
    ({"seed": 7, "temperature": 0.8, "top_k": 20}, ["--seed=7", "--temperature=0.8", "--top-k=20"]),
    ({"seed": 7, "rule": "coupled", "draft_tokens": 3}, ["--seed=7", "--rule=coupled", "--draft-tokens=3"]),
    ({"seed": 7, "samples": 4, "stop": "e"}, ["--seed=7", "--samples=4", "--stop=e"]),
    ({"seed": 7, "logprobs": 2, "prompt_logprobs": True, "frequency_penalty": 1.5},
     ["--seed=7", "--logprobs=2", "--prompt-logprobs", "--frequency-penalty=1.5"]),
    ({"seed": 7, "logit_bias": {260: 100}, "draft_tokens": 0},
     ["--seed=7", "--logit-bias=260:100", "--draft-tokens=0"]),
]


def openai_package():
    """As scripts/setup installs it."""
    pinned = hashlib.sha256((services.ROOT / "scripts/openai.txt").read_bytes()).hexdigest()[:16]
    folder = services.CACHE / f"python-openai-{pinned}"
    if not (folder / ".complete").exists():
        raise unittest.SkipTest(f"no openai package in {folder}; scripts/setup puts it there")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    import openai
    return openai


class ServicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.served = Served(target=demo_target_with(TEMPLATE, cls.folder.name))
        cls.address = f"127.0.0.1:{cls.served.grpc_port}"
        cls.client = Client(cls.address)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.served.__exit__()
        cls.folder.cleanup()

    def test_texts_are_those_of_the_command(self):
        for options, flags in OPTIONS:
            with self.subTest(options=options):
                there = self.served.grpc(f"--prompt={PROMPT}", "--max-tokens=24", *flags)
                result = self.client.generate(PROMPT, max_tokens=24, **options)
                for sample, its in zip(result.samples, there.get("samples", [there])):
                    self.assertEqual((list(sample.token_ids), sample.text, sample.finish_reason),
                                     (its["token_ids"], its["text"], its["finish_reason"]))
                    self.assertEqual(sample.stop_string, its.get("stop_string", ""))
                    for mine, value in zip(sample.logprobs, its.get("logprobs", ())):
                        self.assertAlmostEqual(mine.logprob, value, places=6)
                if "logprobs" in options:
                    self.assertTrue(b"".join(result.samples[0].token_bytes).decode("utf-8", "replace")
                                    .startswith(result.text))
                    for token in result.samples[0].logprobs + result.prompt_logprobs:
                        self.assertTrue(token.token and all(one.token for one in token.top), token)
                self.assertEqual(result.usage.completion_tokens, there["usage"]["completion_tokens"])
                self.assertEqual(len(result.token_ids) if "logprobs" in options else 0,
                                 len(result.samples[0].logprobs))
                if "prompt_logprobs" in options:
                    self.assertEqual(len(result.prompt_logprobs), result.usage.prompt_tokens - 1)
                record = result.record
                self.assertEqual(sum(record.accepted_histogram), record.rounds)
                if options.get("draft_tokens"):  # else the length policy may have said 0
                    self.assertGreater(record.draft_tokens, 0)

    def test_ids_are_those_of_http_and_of_grpcs_own_stub(self):
        status, http = self.served.post("/v1/completions", {
            "prompt": PROMPT, "max_tokens": 24, "seed": 7, "temperature": 0.8, "return_token_ids": True})
        self.assertEqual(status, 200)
        ids = http["choices"][0]["token_ids"]
        request = v1.GenerateRequest(text=PROMPT, max_tokens=24, seed=7, sampling=v1.SamplingOptions(temperature=0.8))
        with grpc.insecure_channel(self.address) as channel:
            replies = list(generation_pb2_grpc.GenerationStub(channel).Generate(request))
        self.assertEqual([one for reply in replies for one in reply.delta.token_ids], ids)
        self.assertEqual([replies[0].WhichOneof("kind"), replies[-1].WhichOneof("kind")], ["started", "last"])
        status, http = self.served.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 24, "temperature": 0,
                                                            "tandem": {"text_runs": True, "draft_tokens": 4}})
        self.assertEqual(status, 200)
        runs = self.client.generate(PROMPT, max_tokens=24, temperature=0, text_runs=True,
                                    draft_tokens=4).samples[0].text_runs
        self.assertEqual([{"text": run.text, "accepted": run.accepted} for run in runs],
                         http["choices"][0]["text_runs"])
        result = self.client.generate(list(self.tokens()), max_tokens=24, seed=7, temperature=0.8)
        self.assertEqual(list(result.token_ids), ids, "of a prompt in ids")

    def tokens(self):
        return self.served.post("/tokenize", {"prompt": PROMPT})[1]["tokens"]

    def test_models_and_tokens_are_those_of_http(self):
        (model,) = self.client.models()
        status, http = self.served.get("/v1/models")
        self.assertEqual((status, model.id, model.context_length),
                         (200, http["data"][0]["id"], http["data"][0]["max_model_len"]))
        tokens = self.client.tokenize(PROMPT)
        self.assertEqual(list(tokens.token_ids), self.tokens())
        plain = self.client.tokenize(PROMPT, add_special_tokens=False)
        self.assertEqual(b"".join(plain.token_bytes).decode().strip(), PROMPT)
        self.assertEqual(self.client.detokenize(tokens.token_ids), PROMPT)
        self.assertEqual(len(self.client.tokenize(MESSAGES).token_ids),
                         self.client.generate(MESSAGES, max_tokens=1).usage.prompt_tokens)

        async def ask():
            async with AsyncClient(self.address) as client:
                return (await client.models(), await client.tokenize(PROMPT),
                        await client.detokenize(tokens.token_ids))
        self.assertEqual(asyncio.run(ask()), ((model,), tokens, PROMPT))

    def test_a_conversation_is_that_of_http(self):
        status, http = self.served.post("/v1/chat/completions", {
            "messages": MESSAGES, "max_completion_tokens": 16, "seed": 7, "temperature": 0.8, "return_token_ids": True})
        self.assertEqual(status, 200, http)
        result = self.client.generate(MESSAGES, max_tokens=16, seed=7, temperature=0.8)
        self.assertEqual(list(result.token_ids), http["choices"][0]["token_ids"])
        more = self.client.generate([*MESSAGES, result.message, {"role": "user", "content": "And then?"}],
                                    max_tokens=4, cache_scope="test")
        self.assertGreater(more.usage.prompt_tokens, result.usage.prompt_tokens)

    def test_answers_and_parts_make_the_ids_that_they_make_over_http(self):
        """The messages as the openai package sends them, and the same list with its objects to this
        client."""
        openai = openai_package()
        parts = {"role": "user", "content": [{"type": "text", "text": "Where was"}, {"type": "text", "text": "it?"}]}
        with openai.OpenAI(base_url=self.served.url("/v1"), api_key="none", max_retries=0) as http:
            answer = http.chat.completions.create(model="target", messages=[parts], max_tokens=8, seed=7)
            message = answer.choices[0].message
            for turn in (message, message.model_dump(), {**message.model_dump(exclude_none=True), "refusal": None}):
                messages = [{"role": "system", "content": None}, parts, turn, {"role": "user", "content": "And then?"}]
                mine = self.client.generate(messages, max_tokens=8, seed=7, logprobs=0)
                there = http.chat.completions.create(model="target", messages=messages, max_tokens=8, seed=7,
                                                     extra_body={"return_token_ids": True})
                self.assertEqual(mine.usage.prompt_tokens, there.usage.prompt_tokens)
                self.assertEqual(list(mine.token_ids), there.choices[0].token_ids)
                plain = [one.model_dump() if hasattr(one, "model_dump") else one for one in messages]
                self.assertEqual(list(self.client.tokenize(messages).token_ids),
                                 self.served.post("/tokenize", {"messages": plain})[1]["tokens"])

    def check_freed(self, leave):
        """Whoever leaves in mid-stream frees its sequences: only the rounds follow that pass until
        the news arrives."""
        leave()
        before = self.served.metric("tandem:rounds_total")
        eventually(self.served.check_idle)
        self.assertLess(self.served.metric("tandem:rounds_total") - before, 10 * LONG["samples"],
                        f"{LONG['samples']} texts of {LONG['max_tokens']} tokens are far longer")

    def test_who_leaves_frees_everything_within_a_round(self):
        stream = self.client.stream(PROMPT, **LONG)
        next(stream)
        self.check_freed(stream.cancel)
        with self.assertRaises(tandem_client.Cancelled):
            stream.result()

        async def leave():
            async with AsyncClient(self.address) as client:
                task = asyncio.ensure_future(client.generate(PROMPT, **LONG))
                while self.served.metric("tandem:open_calls") == 0:
                    await asyncio.sleep(0.01)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
        self.check_freed(lambda: asyncio.run(leave()))

    def test_a_lost_orchestrator_changes_no_id(self):
        options = {**LONG, "samples": 2, "max_tokens": 400}
        whole = self.client.generate(PROMPT, **options)
        with Served() as lost:
            with Client(f"ipv4:127.0.0.1:{lost.grpc_port},{self.address}") as client:
                while True:
                    stream = client.stream(PROMPT, **options)
                    next(stream)
                    if lost.metric("tandem:open_calls") > 0:
                        break
                    stream.cancel()  # the other one has it: the next goes to this one
                lost.process.process.kill()
                result = stream.result()
            self.assertGreaterEqual(result.resumed, 1)
            self.assertEqual([one.token_ids for one in result.samples], [one.token_ids for one in whole.samples])
            self.assertEqual([one.text for one in result.samples], [one.text for one in whole.samples])

    def example(self, name):
        done = subprocess.run([sys.executable, PROJECT / "examples" / name, self.address], check=False, timeout=120,
                              capture_output=True, text=True, env=PACKAGE.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_examples_run(self):
        text = self.served.grpc(f"--prompt={PROMPT}", "--max-tokens=60", "--temperature=0.8", "--seed=7")["text"]
        self.assertTrue(self.example("stream.py").startswith(f"{text}\n\n60 tokens in "))
        chat = self.example("chat.py")
        for question in ("> Where was the city?\n", "> And who lived there?\n", "> What did they eat?\n"):
            self.assertIn(question, chat)
        samples = self.example("samples.py")
        self.assertEqual(len(samples.strip().splitlines()), 3 * 5)
        text = self.served.grpc(f"--prompt={PROMPT}", "--max-tokens=400", "--temperature=0.8", "--seed=7",
                                "--ignore-eos")["text"]
        self.assertTrue(self.example("resume.py").startswith(text))


class SecureTest(unittest.TestCase):
    def test_tls_and_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            certs = pathlib.Path(folder) / "certs"
            subprocess.run([services.ROOT / "scripts/certs", certs], check=True, stdout=subprocess.DEVNULL)
            tokens = pathlib.Path(folder) / "tokens"
            tokens.write_text("right-4f1c9ab2d07e6653\n")
            with Served(f"--tls-certificate={certs}/orchestrator.pem", f"--tls-key={certs}/orchestrator.key",
                        f"--tls-client-ca={certs}/ca.pem", f"--token-file={tokens}") as served:
                address = f"127.0.0.1:{served.grpc_port}"
                mine = Tls(ca=certs / "ca.pem", certificate=certs / "client.pem", key=certs / "client.key")
                with Client(address, tls=mine, token_file=tokens) as client:
                    self.assertEqual(client.generate(PROMPT, max_tokens=3).usage.completion_tokens, 3)
                    self.assertTrue(client.describe().welcome.model_id)

                async def ask():
                    async with AsyncClient(address, tls=mine, token="right-4f1c9ab2d07e6653") as client:
                        return await client.generate(PROMPT, max_tokens=3)
                self.assertEqual(asyncio.run(ask()).usage.completion_tokens, 3)
                with Client(address, tls=mine, token="wrong-4f1c9ab2d07e6653") as client:
                    with self.assertRaises(tandem_client.Unauthenticated):
                        client.generate(PROMPT, max_tokens=3)
                for other in (Tls(ca=certs / "ca.pem"), None):
                    with Client(address, tls=other) as client, self.assertRaises(tandem_client.Unavailable):
                        client.describe(timeout=20)


if __name__ == "__main__":
    unittest.main()
