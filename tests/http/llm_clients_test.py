"""LangChain and LiteLLM, as their users have them, against the services. scripts/client-tools
installs them."""

import asyncio
import hashlib
import os
import sys
import unittest

from served import PROMPT, Served, services

PINNED = hashlib.sha256((services.ROOT / "scripts/llm-clients.txt").read_bytes()).hexdigest()[:16]
FOLDER = services.CACHE / f"python-llm-clients-{PINNED}"
if not (FOLDER / ".complete").exists():
    services.skip(f"no LangChain and LiteLLM in {FOLDER}; scripts/client-tools puts them there")
sys.path.insert(0, str(FOLDER))
# Nothing is fetched
os.environ.update({"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGCHAIN_TRACING_V2": "false"})
import langchain_openai  # noqa: E402
import litellm  # noqa: E402
from langchain_core.messages import HumanMessage, SystemMessage  # noqa: E402
from langchain_openai.chat_models.base import OpenAIContextOverflowError  # noqa: E402

litellm.telemetry = False
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}]
SERVED = Served()


def tearDownModule():
    SERVED.__exit__()


def texts_of_grpc(prompt, samples=1):
    return SERVED.grpc(f"--prompt={prompt}", "--seed=7", "--max-tokens=12", "--temperature=0.8", f"--samples={samples}")


class LangChain(unittest.TestCase):
    OPTIONS = {"model": "target", "base_url": SERVED.url("/v1"), "api_key": "none", "temperature": 0.8, "seed": 7,
               "max_retries": 0}

    def chat(self, **options):
        return langchain_openai.ChatOpenAI(**{**self.OPTIONS, "max_tokens": 12, **options})

    def test_a_chat_whole_streamed_and_in_batches(self):
        messages = [SystemMessage("Be brief."), HumanMessage(PROMPT)]
        expected = SERVED.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 12, "temperature": 0.8,
                                                        "seed": 7})[1]["choices"][0]["message"]["content"]
        whole = self.chat().invoke(messages)
        self.assertEqual(whole.content, expected)
        self.assertEqual(whole.usage_metadata["output_tokens"], 12)
        streamed = list(self.chat(stream_usage=True).stream(messages))
        self.assertEqual("".join(chunk.content for chunk in streamed), expected)
        self.assertEqual(sum(chunk.usage_metadata["output_tokens"] for chunk in streamed if chunk.usage_metadata), 12)
        self.assertEqual([one.content for one in self.chat().batch([messages] * 3)], [expected] * 3)
        again = self.chat().invoke([*messages, whole, HumanMessage([{"type": "text", "text": "And then?"}])])
        self.assertGreater(again.usage_metadata["input_tokens"], whole.usage_metadata["input_tokens"])

    def test_log_probabilities_and_options(self):
        answer = self.chat(logprobs=True, top_logprobs=2, reasoning_effort="low").invoke([HumanMessage(PROMPT)])
        self.assertEqual(len(answer.response_metadata["logprobs"]["content"]), 12)

    def test_an_exceeded_context_is_an_error_of_its_own(self):
        for options, text in (({"max_tokens": 10**6}, "x"), ({}, "word " * 3000)):
            with self.assertRaises(OpenAIContextOverflowError):
                self.chat(**options).invoke([HumanMessage(text)])

    def test_a_completion_of_several_prompts(self):
        llm = langchain_openai.OpenAI(**self.OPTIONS, max_tokens=12)
        prompts = [PROMPT, "Once upon a time"]
        expected = [texts_of_grpc(prompt)["text"] for prompt in prompts]
        result = llm.generate(prompts)
        self.assertEqual([generations[0].text for generations in result.generations], expected)
        self.assertEqual("".join(llm.stream(PROMPT)), expected[0])
        self.assertEqual(asyncio.run(llm.ainvoke(PROMPT)), expected[0])


class LiteLlm(unittest.TestCase):
    OPTIONS = {"model": "openai/target", "api_base": SERVED.url("/v1"), "api_key": "none", "temperature": 0.8,
               "seed": 7, "max_retries": 0}

    def test_a_chat_whole_and_streamed(self):
        options = {**self.OPTIONS, "messages": MESSAGES, "max_tokens": 12}
        whole = litellm.completion(**options)
        self.assertEqual(whole.usage.completion_tokens, 12)
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(stream=True, **options))
        self.assertEqual(streamed, whole.choices[0].message.content)

        async def ask():
            return (await litellm.acompletion(**options)).choices[0].message.content
        self.assertEqual(asyncio.run(ask()), streamed)

    def test_a_completion(self):
        options = {**self.OPTIONS, "model": "text-completion-openai/target", "max_tokens": 12}
        answer = litellm.text_completion(prompt=PROMPT, **options)
        self.assertEqual(answer.choices[0].text, texts_of_grpc(PROMPT)["text"])

    def test_errors_are_those_that_callers_catch(self):
        for options in ({"max_tokens": 10**6}, {"max_completion_tokens": 10**6}):
            with self.assertRaises(litellm.ContextWindowExceededError):
                litellm.completion(messages=MESSAGES, **self.OPTIONS, **options)
        with self.assertRaises(litellm.ContextWindowExceededError):
            litellm.completion(messages=[{"role": "user", "content": "word " * 300_000}], **self.OPTIONS)
        with self.assertRaises(litellm.NotFoundError):
            litellm.completion(messages=MESSAGES, **{**self.OPTIONS, "model": "openai/other"})
        with self.assertRaises(litellm.BadRequestError):
            litellm.completion(messages=MESSAGES, **{**self.OPTIONS, "temperature": 101})


if __name__ == "__main__":
    unittest.main()
