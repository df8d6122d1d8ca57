"""demo/prompts.py: what is asked, what is held out, and what is refused."""

import gzip
import json
import lzma
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "demo"))
import prompts


class PromptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        file = self.folder / name
        opener = {".gz": gzip.open, ".xz": lzma.open}.get(file.suffix, open)
        with opener(file, "wt", encoding="utf-8") as stream:
            stream.write(text)
        return file

    def texts(self, file):
        return [messages[0]["content"] for messages in prompts.read_prompts(file)]

    def refusal(self, file):
        with self.assertRaises(SystemExit) as refused:
            prompts.read_prompts(file)
        return str(refused.exception)

    def test_rows_of_each_published_form(self):
        rows = [{"turns": ["one", "more"]}, {"question": "two"}, {"prompt": "three"}]
        rows.append({"messages": [{"role": "user", "content": "four"}]})
        text = "\n".join(json.dumps(row) for row in rows) + "\n\n"
        for name in ("a.jsonl", "a.jsonl.gz"):
            self.assertEqual(self.texts(self.write(name, text)), ["one", "two", "three", "four"])

    def test_passages_are_whole_words_of_the_documents(self):
        document = " ".join(f"word{i}" for i in range(3000))
        file = self.write("a.txt.xz", document + f"\n{prompts.END_OF_TEXT}\nshort\n")
        made = [m[0]["content"] for m in prompts.read_prompts(file, passages_per_file=50)]
        self.assertEqual(len(made), 50)
        self.assertEqual(len(set(made)), 50)
        words = set(document.split())
        for number, prompt in enumerate(made):
            before, after = prompts.TASKS[number % len(prompts.TASKS)].split("{}")
            self.assertTrue(prompt.startswith(before) and prompt.endswith(after))
            passage = prompt[len(before) : len(prompt) - len(after)]
            self.assertLessEqual(set(passage.split()), words)
            self.assertIn(passage, document)
        again = [m[0]["content"] for m in prompts.read_prompts(file, passages_per_file=50)]
        self.assertEqual(made, again)

    def test_what_is_held_out_is_never_trained_on(self):
        both = list(range(100))
        learned, held_out = prompts.split(both, False), prompts.split(both, True)
        self.assertEqual(sorted(learned + held_out), both)
        self.assertEqual(len(held_out), 33)

    def test_each_prompt_comes_as_often_as_there_are_rounds(self):
        order = list(prompts.in_turn([["a", "b", "c"], ["d"], []], rounds=2))
        self.assertEqual(len(order), len(set(order)))
        self.assertEqual(order[:4], [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 0, 1)])
        self.assertEqual(len(order), 8)

    def test_bad_files_are_named(self):
        self.assertIn("is no file", self.refusal(self.folder / "none.jsonl"))
        self.assertIn("neither .jsonl nor .txt", self.refusal(self.write("a.csv", "x")))
        self.assertIn(
            "a.jsonl:2: no JSON", self.refusal(self.write("a.jsonl", '{"prompt":"x"}\n{'))
        )
        self.assertIn("['text']", self.refusal(self.write("b.jsonl", '{"text":"x"}')))


if __name__ == "__main__":
    unittest.main()
