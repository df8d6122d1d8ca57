"""The chat page in a browser. With TANDEM_SCREENSHOT=FILE the picture of docs/ is written there."""

import os
import pathlib
import tempfile
import unittest

import browser
from browser import Browser
from served import Served, demo_target_without, services

if browser.PROGRAM is None:
    services.skip("no chromium; Debian's package of that name has it")

PICTURE = os.environ.get("TANDEM_SCREENSHOT")
# What is said in it, and how long the answers are.
SAID = [("The old captain looked at the sea and said", 60), ("In the morning the whole town", 600)]
SHOWN = """(() => {
  const turns = [...document.querySelectorAll('section')];
  return turns.map((turn) => ({
    user: turn.querySelector('.user').textContent,
    text: turn.querySelector('.assistant').textContent,
    accepted: [...turn.querySelectorAll('.assistant .accepted')].map((run) => run.textContent),
    record: turn.querySelector('.record') ? turn.querySelector('.record').textContent : '',
  }));
})()"""
# How often the text grew while an answer came.
WATCH = """(() => {
  window.grown = 0;
  let before = 0;
  new MutationObserver(() => {
    const now = document.querySelector('#messages').textContent.length;
    if (now > before) ++window.grown;
    before = now;
  }).observe(document.querySelector('#messages'), {childList: true, subtree: true, characterData: true});
})()"""


class Page(unittest.TestCase):
    def say(self, page, text, turns):
        page.type("#text", text)
        page.until(f"document.querySelectorAll('.record').length === {turns} && !running")
        return page.run(SHOWN)[-1]

    def test_a_conversation(self):
        with Served() as served, Browser() as page:
            page.open(served.url("/"))
            self.assertIn("target, 1024 tokens", page.until("document.querySelector('#model').textContent"))
            page.run("document.querySelector('#max_tokens').value = 48, document.querySelector('#seed').value = '7',"
                     "document.querySelector('#temperature').value = 0.7")
            page.run(WATCH)
            one = self.say(page, "The old captain looked at the sea and said", 1)
            there = served.grpc("--prompt=The old captain looked at the sea and said", "--temperature=0.7", "--seed=7",
                                "--max-tokens=48")
            self.assertEqual(one["text"], there["text"])
            self.assertGreater(page.run("window.grown"), 5, "it did not stream")
            self.assertTrue(one["accepted"])
            self.assertNotEqual("".join(one["accepted"]), one["text"])
            for part in ("48 tokens (length)", "per target pass", "draft tokens accepted", "tokens per second",
                         "rule coupled, exact, seed 7"):
                self.assertIn(part, one["record"])
            two = self.say(page, "The next day <b>we</b>", 2)
            self.assertEqual(two["user"], "The next day <b>we</b>", "text is text")
            self.assertEqual(two["text"], served.grpc(
                f"--prompt=The old captain looked at the sea and said{one['text']}\n\nThe next day <b>we</b>",
                "--temperature=0.7", "--seed=7", "--max-tokens=48")["text"])
            page.run("document.querySelector('#draft_tokens').value = '0'")
            three = self.say(page, "And then", 3)
            self.assertEqual(three["accepted"], [])
            self.assertIn("nothing was drafted", three["record"])
            page.run("document.querySelector('#reset').click()")
            self.assertEqual(page.run(SHOWN), [])
            page.run("document.querySelector('#draft_tokens').value = 'auto'")
            self.assertEqual(self.say(page, "The old captain looked at the sea and said", 1)["text"], one["text"])
            self.assertEqual(page.hosts(), {f"127.0.0.1:{served.http_port}"})
            self.assertEqual(page.complaints(), [])

    def test_a_drafter_is_chosen_among_those_that_the_drafts_offer(self):
        with Served() as served, Browser() as page:
            page.open(served.url("/"))
            page.until("document.querySelector('#drafter').length > 1")
            offered = served.get("/v1/models")[1]["data"][0]["tandem"]["drafters"]
            self.assertIn("prompt-lookup", offered)
            self.assertEqual(page.run("[...document.querySelector('#drafter').options].map((one) => one.value)"),
                             ["", "auto", *offered])
            page.run("document.querySelector('#max_tokens').value = 24,"
                     "document.querySelector('#drafter').value = 'prompt-lookup'")
            # What the page asks for, and what it shows while the answer comes.
            page.run("""(() => {
              const send = window.fetch;
              window.fetch = (url, options) => { window.asked = options.body; return send(url, options); };
              window.rates = [];
              new MutationObserver(() => {
                const record = document.querySelector('section .record');
                if (running && record && record.textContent) window.rates.push(record.textContent);
              }).observe(document.querySelector('#messages'), {childList: true, subtree: true, characterData: true});
            })()""")
            self.say(page, "The old captain looked at the sea and said", 1)
            self.assertEqual(page.run("JSON.parse(asked).tandem.drafter"), "prompt-lookup")
            self.assertRegex(page.run("rates[0]"), r"^\d+ tokens per second$")
            page.run("document.querySelector('#drafter').value = ''")
            self.say(page, "And then", 2)
            self.assertFalse(page.run("'drafter' in JSON.parse(asked).tandem"))
            self.assertEqual(page.complaints(), [])

    @unittest.skipUnless(PICTURE, "no TANDEM_SCREENSHOT=FILE")
    def test_the_picture_of_docs(self):
        with Served() as served, Browser(width=860, height=720) as page:
            page.open(served.url("/"))
            page.until("document.querySelector('#model').textContent")
            page.run("document.querySelector('#temperature').value = 0.6, document.querySelector('#seed').value = '7'")
            for turn, (text, tokens) in enumerate(SAID, 1):
                page.run(f"document.querySelector('#max_tokens').value = {tokens}")
                if turn < len(SAID):
                    self.say(page, text, turn)
            page.type("#text", SAID[-1][0])
            page.until("[...document.querySelectorAll('.assistant')].pop().textContent.length > 250 && running !== null")
            pathlib.Path(PICTURE).write_bytes(page.picture())
            self.assertTrue(page.run("running !== null"), "the picture is of an answer that comes")

    def test_an_answer_can_be_stopped(self):
        with Served() as served, Browser() as page:
            page.open(served.url("/"))
            page.until("document.querySelector('#model').textContent")
            page.type("#text", "The old captain looked at the sea and said")
            page.until("document.querySelector('.assistant') && document.querySelector('.assistant').textContent")
            page.run("document.querySelector('#stop').click()")
            page.until("!running")
            self.assertEqual(page.run("said.length"), 0)
            services.eventually(served.check_idle)

    def test_a_token_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = pathlib.Path(folder) / "tokens"
            tokens.write_text("right-4f1c9ab2d07e6653\n")
            with Served(f"--token-file={tokens}") as served, Browser() as page:
                page.open(served.url("/"))
                page.until("!document.querySelector('#access').hidden")
                self.assertIn("authorization", page.run("document.querySelector('#notice').textContent").lower())
                page.type("#token", "right-4f1c9ab2d07e6653")
                page.until("document.querySelector('#model').textContent")
                self.assertTrue(page.run("document.querySelector('#access').hidden"))
                page.run("document.querySelector('#max_tokens').value = 4")
                self.assertIn("4 tokens (length)", self.say(page, "The old captain", 1)["record"])

    def test_a_model_without_a_template_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            target = demo_target_without("tokenizer_config.json", folder)
            with Served(target=target) as served, Browser() as page:
                page.open(served.url("/"))
                page.until("document.querySelector('#model').textContent")
                self.assertIn("has no chat template", page.run("document.querySelector('#notice').textContent"))
                self.assertTrue(page.run("document.querySelector('#send').disabled"))


if __name__ == "__main__":
    unittest.main()
