"""The `openai` package, as its users have it, against the services. scripts/setup installs it."""

import asyncio
import hashlib
import sys
import tempfile
import unittest

from served import PROMPT, Served, demo_target_with, eventually, services

PINNED = hashlib.sha256((services.ROOT / "scripts/openai.txt").read_bytes()).hexdigest()[:16]
FOLDER = services.CACHE / f"python-openai-{PINNED}"
if not (FOLDER / ".complete").exists():
    services.skip(f"no openai package in {FOLDER}; scripts/setup puts it there")
sys.path.insert(0, str(FOLDER))
import openai  # noqa: E402

# A field of the API, and the flags of `tandem generate` that ask for the same over gRPC.
OPTIONS = [
    ({"temperature": 0}, ["--temperature=0"]),
    ({"temperature": 1.5}, ["--temperature=1.5"]),
    ({"top_p": 0.5}, ["--top-p=0.5"]),
    ({"top_k": 3}, ["--top-k=3"]),
    ({"min_p": 0.2}, ["--min-p=0.2"]),
    ({"presence_penalty": 2}, ["--presence-penalty=2"]),
    ({"frequency_penalty": 1.5}, ["--frequency-penalty=1.5"]),
    ({"repetition_penalty": 1.5}, ["--repetition-penalty=1.5"]),
    ({"logit_bias": {"260": 100}}, ["--logit-bias=260:100"]),
    ({"stop": ["e"]}, ["--stop=e"]),
    ({"ignore_eos": True, "min_tokens": 5}, ["--ignore-eos", "--min-tokens=5"]),
    ({"allowed_token_ids": [260, 261, 262]}, ["--allowed-tokens=260,261,262"]),
    ({"tandem": {"draft_tokens": 0}}, ["--draft-tokens=0"]),
    ({"tandem": {"rule": "coupled", "first_sample": 2}}, ["--rule=coupled", "--first-sample=2"]),
    ({"tandem": {"banned_token_ids": [260]}}, ["--banned-tokens=260"]),
]
# What the package knows by itself; all else goes through `extra_body`.
KNOWN = {"temperature", "top_p", "presence_penalty", "frequency_penalty", "logit_bias", "stop", "n", "logprobs",
         "stream", "stream_options", "echo", "suffix", "user", "best_of", "seed"}


def split(options):
    """The package's own arguments."""
    mine = {name: value for name, value in options.items() if name in KNOWN}
    more = {name: value for name, value in options.items() if name not in KNOWN}
    return {**mine, "extra_body": more}


class OpenAi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served()
        cls.client = openai.OpenAI(base_url=cls.served.url("/v1"), api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.served.__exit__()

    def complete(self, **options):
        options = {"seed": 7, "temperature": 0.8, "return_token_ids": True, **options}
        return self.client.completions.create(model="target", prompt=PROMPT, max_tokens=24, **split(options))

    def grpc(self, *flags):
        return self.served.grpc(f"--prompt={PROMPT}", "--seed=7", "--max-tokens=24", *flags)

    def test_models(self):
        (model,) = self.client.models.list().data
        self.assertEqual(model.id, "target")
        self.assertEqual(self.client.models.retrieve("target").id, "target")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")

    def test_a_completion_is_that_of_grpc(self):
        answer = self.complete()
        (choice,) = answer.choices
        there = self.grpc("--temperature=0.8")
        self.assertEqual(choice.token_ids, there["token_ids"])
        self.assertEqual(choice.text, there["text"])
        self.assertEqual(choice.finish_reason, there["finish_reason"])
        self.assertEqual(answer.usage.prompt_tokens, there["usage"]["prompt_tokens"])
        self.assertEqual(answer.usage.completion_tokens, len(choice.token_ids))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        record = answer.usage.speculation
        self.assertEqual((record["rule"], record["exact"]), ("coupled", True))
        self.assertEqual(sum(record["accepted_histogram"]), record["rounds"])
        spec = answer.metrics["speculative_decoding"]
        self.assertEqual(spec["num_draft_tokens"], record["draft_tokens"])
        self.assertEqual(spec["num_accepted_draft_tokens"], record["accepted_tokens"])
        self.assertEqual(answer.tandem["seed"], "7")
        self.assertTrue(answer.system_fingerprint.startswith(answer.tandem["target_model_id"]))
        self.assertTrue(answer.id.startswith("cmpl-"))
        self.assertEqual(answer._request_id, answer.tandem["request_id"])

    def test_every_option_is_that_of_grpc(self):
        plain = self.complete().choices[0].token_ids
        for options, flags in OPTIONS:
            with self.subTest(options=options):
                temperature = [] if "temperature" in options else ["--temperature=0.8"]
                ids = self.complete(**options).choices[0].token_ids
                self.assertEqual(ids, self.grpc(*temperature, *flags)["token_ids"])
                same = ({"tandem": {"draft_tokens": 0}},)
                if options in same:
                    self.assertEqual(ids, plain, "coupled: with a draft or without")

    def test_a_stream_is_the_same_in_parts(self):
        whole = self.complete(n=4)
        texts, ids, ends, usage = [""] * 4, [[] for _ in range(4)], [None] * 4, None
        first = None
        for event in self.complete(n=4, stream=True, stream_options={"include_usage": True}):
            first = first or event
            usage = event.usage or usage
            for choice in event.choices:
                texts[choice.index] += choice.text
                ids[choice.index] += getattr(choice, "token_ids", None) or []
                ends[choice.index] = choice.finish_reason or ends[choice.index]
        self.assertEqual(first.tandem["seed"], "7")
        for choice in whole.choices:
            self.assertEqual(texts[choice.index], choice.text)
            self.assertEqual(ids[choice.index], choice.token_ids)
            self.assertEqual(ends[choice.index], choice.finish_reason)
        self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(len({tuple(its) for its in ids}), 4, "four texts")
        there = self.grpc("--temperature=0.8", "--samples=4")
        self.assertEqual(ids, [sample["token_ids"] for sample in there["samples"]])

    def test_log_probabilities_are_those_of_grpc(self):
        there = self.grpc("--temperature=0.8", "--logprobs=2")
        for stream in (False, True):
            answer = self.complete(logprobs=2, stream=stream)
            events = list(answer) if stream else [answer]
            got = [choice.logprobs for event in events for choice in event.choices if choice.logprobs]
            logprobs = [value for one in got for value in one.token_logprobs]
            self.assertEqual(len(logprobs), len(there["logprobs"]))
            for mine, its in zip(logprobs, there["logprobs"]):
                self.assertAlmostEqual(mine, its, places=6)
            tokens = [token for one in got for token in one.tokens]
            offsets = [offset for one in got for offset in one.text_offset]
            self.assertEqual(offsets[0], 0)
            for i in range(1, len(tokens)):
                self.assertEqual(offsets[i], offsets[i - 1] + len(tokens[i - 1]))
            for one in got:
                for token, value, top in zip(one.tokens, one.token_logprobs, one.top_logprobs):
                    self.assertEqual(top[token], value)
                    self.assertIn(len(top), (2, 3))

    def test_several_prompts_are_those_of_several_requests(self):
        prompts = [PROMPT, "Once upon a time", [260, 261, 262]]
        options = {"model": "target", "max_tokens": 8, "seed": 7, "temperature": 1, "n": 2,
                   "extra_body": {"return_token_ids": True}}
        alone = [self.client.completions.create(prompt=prompt, **options) for prompt in prompts]
        expected = [(choice.text, choice.token_ids, choice.finish_reason)
                    for answer in alone for choice in answer.choices]
        whole = self.client.completions.create(prompt=prompts, **options)
        self.assertEqual([choice.index for choice in whole.choices], list(range(6)))
        self.assertEqual([(choice.text, choice.token_ids, choice.finish_reason) for choice in whole.choices], expected)
        texts, ids, ends, usage = [""] * 6, [[] for _ in range(6)], [None] * 6, None
        for event in self.client.completions.create(prompt=prompts, stream=True,
                                                    stream_options={"include_usage": True}, **options):
            usage = event.usage or usage
            for choice in event.choices:
                texts[choice.index] += choice.text
                ids[choice.index] += getattr(choice, "token_ids", None) or []
                ends[choice.index] = choice.finish_reason or ends[choice.index]
        self.assertEqual(list(zip(texts, ids, ends)), expected)
        for its in (whole.usage, usage):
            for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
                self.assertEqual(getattr(its, name), sum(getattr(answer.usage, name) for answer in alone))
            self.assertEqual(sum(its.speculation["accepted_histogram"]), its.speculation["rounds"])
        eventually(self.served.check_idle)

    def test_no_prompt_begins_when_one_of_several_is_wrong(self):
        started = self.served.metric("tandem:rounds_total")
        for stream in (False, True):
            for wrong, param in (("", "prompt[1]"), ("word " * 2000, "prompt[1]"), ([10**9], "prompt[1]")):
                with self.assertRaises(openai.BadRequestError) as raised:
                    self.client.completions.create(model="target", prompt=[PROMPT, wrong, PROMPT], stream=stream)
                self.assertEqual(raised.exception.param, param)
        self.assertEqual(self.served.metric("tandem:rounds_total"), started)
        stream = self.client.completions.create(model="target", prompt=[PROMPT] * 4, max_tokens=400, stream=True,
                                                extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        eventually(self.served.check_idle)

    def test_evaluation_harnesses_score_texts(self):
        """As lm-evaluation-harness does: prompts of ids, an echo with log probabilities, one token
        more or none."""
        texts = [[260, 261, 262, 263], [264, 265]]
        for max_tokens in (1, 0):
            answer = self.client.completions.create(model="target", prompt=texts, max_tokens=max_tokens, logprobs=1,
                                                    echo=True, temperature=0, seed=1234)
            for choice, ids in zip(answer.choices, texts):
                its = choice.logprobs
                self.assertEqual(len(its.token_logprobs), len(ids) + max_tokens)
                self.assertEqual((its.token_logprobs[0], its.top_logprobs[0]), (None, None))
                for token, value, top in list(zip(its.tokens, its.token_logprobs, its.top_logprobs))[1:]:
                    self.assertEqual(top[token], value)
                    self.assertLessEqual(value, max(top.values()))
                self.check_offsets(its, choice.text)
            self.assertEqual(answer.usage.completion_tokens, max_tokens * len(texts))
        there = self.served.grpc(f"--prompt={PROMPT}", "--max-tokens=1", "--temperature=0", "--logprobs=0",
                                 "--prompt-logprobs")
        for stream in (False, True):
            answer = self.client.completions.create(model="target", prompt=PROMPT, max_tokens=1, logprobs=0, echo=True,
                                                    temperature=0, stream=stream)
            choices = [choice for event in (answer if stream else [answer]) for choice in event.choices]
            values = [value for choice in choices if choice.logprobs for value in choice.logprobs.token_logprobs]
            self.assertEqual(values[0], None)
            for mine, its in zip(values[1:], there["prompt_logprobs"]["logprobs"] + there["logprobs"]):
                self.assertAlmostEqual(mine, its, places=6)
            self.assertEqual("".join(choice.text for choice in choices), PROMPT + there["text"])

    def check_offsets(self, logprobs, text):
        """Each token stands where its offset says, in the text as it was sent."""
        for token, offset in zip(logprobs.tokens, logprobs.text_offset):
            self.assertLessEqual(offset, len(text))
            if not token.startswith("bytes:") and not token.startswith("<"):
                self.assertEqual(text[offset:offset + len(token)], token[:len(text) - offset])

    def test_what_is_wrong_is_named(self):
        cases = [({"temperature": 101}, "temperature"), ({"n": 17}, "n"), ({"best_of": 9}, "best_of"),
                 ({"suffix": "x"}, "suffix"), ({"tools": [1]}, "tools"), ({"top_k": -2}, "top_k"),
                 ({"response_format": {"type": "json_object"}}, "response_format"),
                 ({"tandem": {"priority": 11}}, "tandem.priority")]
        for options, field in cases:
            with self.subTest(options=options), self.assertRaises(openai.BadRequestError) as raised:
                self.complete(**options)
            self.assertEqual(raised.exception.param, field)
            self.assertEqual(raised.exception.type, "invalid_request_error")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.client.completions.create(model="target", prompt="word " * 2000)
        self.assertEqual(raised.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.NotFoundError):
            self.client.completions.create(model="other", prompt=PROMPT)

    def test_many_streams_of_asyncio(self):
        async def one(client, seed):
            text = ""
            stream = await client.completions.create(
                model="target", prompt=PROMPT, max_tokens=16, seed=seed, temperature=1, stream=True)
            async for event in stream:
                text += event.choices[0].text if event.choices else ""
            return text

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=self.served.url("/v1"), api_key="none") as client:
                return await asyncio.gather(*(one(client, seed % 4) for seed in range(16)))

        texts = asyncio.run(all_of_them())
        for seed, text in enumerate(texts):
            self.assertEqual(text, texts[seed % 4])


TEMPLATE = """{% for message in messages %}<{{ message.role }}> {{ message.content }}
{% endfor %}{% if add_generation_prompt %}<{{ name | default("assistant") }}>{% endif %}"""


class Chat(unittest.TestCase):
    """The demo target with a template of this test's."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.served = Served(target=demo_target_with(TEMPLATE, cls.folder.name))
        cls.client = openai.OpenAI(base_url=cls.served.url("/v1"), api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.served.__exit__()
        cls.folder.cleanup()

    MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where was the city?"}]
    RENDERED = "<system> Be brief.\n<user> Where was the city?\n<assistant>"

    def chat(self, **options):
        more = {"return_token_ids": True, **options.pop("extra_body", {})}
        return self.client.chat.completions.create(
            model="target", messages=options.pop("messages", self.MESSAGES), max_completion_tokens=16, seed=7,
            temperature=0.8, extra_body=more, **options)

    def test_a_chat_is_the_completion_of_its_template(self):
        answer = self.chat()
        (choice,) = answer.choices
        there = self.served.grpc(f"--prompt={self.RENDERED}", "--seed=7", "--temperature=0.8", "--max-tokens=16")
        self.assertEqual(choice.token_ids, there["token_ids"])
        self.assertEqual(choice.message.content, there["text"])
        self.assertEqual(choice.message.role, "assistant")
        self.assertEqual(answer.usage.prompt_tokens, there["usage"]["prompt_tokens"])
        self.assertTrue(answer.id.startswith("chatcmpl-"))
        again = self.chat(messages=[*self.MESSAGES, choice.message, {"role": "user", "content": "And then?"}])
        self.assertGreater(again.usage.prompt_tokens, answer.usage.prompt_tokens)

    def test_a_stream_is_the_same_in_parts(self):
        whole = self.chat(n=4)
        texts, ids, ends, usage, roles = [""] * 4, [[] for _ in range(4)], [None] * 4, None, [None] * 4
        for event in self.chat(n=4, stream=True, stream_options={"include_usage": True}):
            usage = event.usage or usage
            for choice in event.choices:
                roles[choice.index] = choice.delta.role or roles[choice.index]
                texts[choice.index] += choice.delta.content or ""
                ids[choice.index] += getattr(choice, "token_ids", None) or []
                ends[choice.index] = choice.finish_reason or ends[choice.index]
        self.assertEqual(texts, [choice.message.content for choice in whole.choices])
        self.assertEqual(ids, [choice.token_ids for choice in whole.choices])
        self.assertEqual(ends, [choice.finish_reason for choice in whole.choices])
        self.assertEqual(roles, ["assistant"] * 4)
        self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)

    def test_log_probabilities_have_text_and_bytes(self):
        for stream in (False, True):
            answer = self.chat(logprobs=True, top_logprobs=2, stream=stream)
            events = list(answer) if stream else [answer]
            tokens = [token for event in events for choice in event.choices if choice.logprobs
                      for token in choice.logprobs.content]
            self.assertEqual(len(tokens), 16)
            for token in tokens:
                self.assertEqual(bytes(token.bytes).decode(errors="replace"), token.token)
                self.assertLessEqual(token.logprob, 0)
                self.assertIn(len(token.top_logprobs), (2, 3))
                self.assertIn((token.token, token.logprob), [(top.token, top.logprob) for top in token.top_logprobs])

    def test_arguments_of_the_template(self):
        bare = self.chat(extra_body={"add_generation_prompt": False})
        named = self.chat(extra_body={"chat_template_kwargs": {"name": "assistant"}})
        plain = self.chat()
        self.assertLess(bare.usage.prompt_tokens, plain.usage.prompt_tokens)
        self.assertEqual(named.choices[0].token_ids, plain.choices[0].token_ids)

    def test_options_that_the_template_has_no_use_for_are_named(self):
        plain = self.chat()
        for options, ignored in (({"modalities": ["text"]}, None), ({"reasoning_effort": "low"}, ["reasoning_effort"])):
            answer = self.chat(**options)
            self.assertEqual(answer.choices[0].token_ids, plain.choices[0].token_ids)
            self.assertEqual(answer.tandem.get("ignored"), ignored)
        first = next(iter(self.chat(stream=True, reasoning_effort="low")))
        self.assertEqual(first.tandem["ignored"], ["reasoning_effort"])


if __name__ == "__main__":
    unittest.main()
