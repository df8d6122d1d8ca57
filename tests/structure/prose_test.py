"""Pages, comments and messages follow .vale.ini, and each of its rules finds what it is for."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/observability"))
import comments  # noqa: E402
import services  # noqa: E402

VALE = services.tool("vale")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "bench", "demo", "k8s", "clients", "observability")
FLAWS = {
    "Clipped": "Read the ratios.",
    "Default": "The port, plaintext when absent.",
    "DraftToken": "Two candidates stand.",
    "Interleaved": "Both builds run in turn.",
    "IsNot": "A late block is no block.",
    "NoDraft": "The time beside none.",
    "Ours": "A kernel of ours computes it.",
    "Per": "It writes 100 tokens a\nsecond.",
    "Required": "A token is needed.",
    "Throughput": "The most tokens a time.",
    "Who": "Operations, for who runs Tandem.",
}
RIGHT = """There is no draft here, and a block is no longer than a candidate tree.
A pass takes a second per request: 100 tokens per second, `tokens a second`.
"""


def vale(*paths):
    ran = subprocess.run([VALE, f"--config={ROOT / '.vale.ini'}", "--output=JSON", "--no-exit", *paths], cwd=ROOT,
                         capture_output=True, text=True, timeout=50, check=True)
    return [f"{path}:{alert['Line']}: {alert['Check']}: {alert['Message']}"
            for path, alerts in json.loads(ran.stdout).items() for alert in alerts]


class Prose(unittest.TestCase):
    def found(self, text):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text(text)
            return vale(str(page))

    def test_the_pages(self):
        self.assertEqual(vale(*PAGES), [])

    def test_each_rule_finds_its_flaw(self):
        self.assertEqual(sorted(FLAWS), sorted(path.stem for path in (ROOT / ".vale/Tandem").glob("*.yml")))
        found = self.found("\n\n".join(FLAWS.values()))
        for rule, text in FLAWS.items():
            self.assertTrue(any(f"Tandem.{rule}:" in alert for alert in found), f"{rule}: {text}")

    def test_what_is_right(self):
        self.assertEqual(self.found(RIGHT), [])


class Comments(unittest.TestCase):
    def test_they_and_messages_read_like_the_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in comments.sources(ROOT):
                texts = {"comments": comments.comments(path)}
                if path.suffix == ".cc" and path.relative_to(ROOT).parts[0] != "tests":
                    texts["messages"] = comments.messages(path)
                for kind, lines in texts.items():
                    if lines:
                        copy = pathlib.Path(folder) / kind / f"{path.relative_to(ROOT)}.txt"
                        copy.parent.mkdir(parents=True, exist_ok=True)
                        copy.write_text(comments.as_prose(lines))
            self.assertEqual([alert.removeprefix(f"{folder}/") for alert in vale(folder)], [])

    def test_they_end_by_column_100(self):
        wide = [f"{path.relative_to(ROOT)}:{line}" for path in comments.sources(ROOT) for line in comments.too_wide(path)]
        self.assertEqual(wide, [])

    def test_what_is_a_comment(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text, expected in (
                    ("a.cc", 'Get("http://a");  // b\n  // c // d\n1 / 2;\n', {1: " b", 2: " c // d"}),
                    ("a.py", '"""A\nb."""\nc = "# d"  # e\n', {1: "A", 2: "b.", 3: " e"}),
                    ("a.cmake", "set(A)  # b\n# c\n", {1: " b", 2: " c"})):
                path = pathlib.Path(folder) / name
                path.write_text(text)
                self.assertEqual(comments.comments(path), expected, name)
                path.write_text(text + "# // " + "more " * 20)
                self.assertEqual(comments.too_wide(path), [text.count("\n") + 1], name)

    def test_what_is_a_message(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.cc"
            path.write_text('#include "a b c"\n// "d e f"\nF("two words", "more than "\n  "two words");\nG("it is one");\n')
            self.assertEqual(comments.messages(path), {3: "more than two words. ", 5: "it is one. "})


if __name__ == "__main__":
    unittest.main(verbosity=2)
