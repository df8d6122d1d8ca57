"""The shell blocks of the first pages can be pasted whole, and the check finds those that
cannot."""
import pathlib
import unittest

import blocks

ROOT = pathlib.Path(__file__).parents[2]
PATH = 'export PATH="$PWD/build/release/bin:$PATH"\n'


class Blocks(unittest.TestCase):
    def wrong(self, *texts):
        page = "\n".join(f"```sh\n{text}\n```\n" for text in texts)
        return " ".join(blocks.Page("page.md", page, ROOT).check())

    def test_the_pages_are_right(self):
        self.assertEqual(blocks.wrong_blocks(ROOT), [])

    def test_there_are_blocks(self):
        for page in blocks.PAGES:
            self.assertGreaterEqual(len(blocks.blocks((ROOT / page).read_text())), 1, page)

    def test_a_right_block_is_right(self):
        self.assertEqual(self.wrong(PATH + "tandem serve --target-model=demo/target & serve=$!\n"
                                    "until grep ready log; do sleep 1; done\ntandem generate --prompt=x",
                                    "tandem bench"), "")

    def test_a_service_that_is_not_waited_for(self):
        self.assertIn("tandem serve may not be ready: tandem generate",
                      self.wrong(PATH + "tandem serve --target-model=demo/target &\ntandem generate --prompt=x"))

    def test_a_service_that_never_ends(self):
        self.assertIn("never reached", self.wrong(PATH + "tandem-target --model=demo/target\ntandem bench"))

    def test_a_program_that_is_nowhere(self):
        self.assertIn("where the program is: tandem bench", self.wrong("tandem bench"))

    def test_a_file_that_nobody_made(self):
        self.assertIn("my-token is not there yet", self.wrong(PATH + "tandem bench --token-file=my-token"))
        self.assertEqual(self.wrong(PATH + "(umask 077; openssl rand -hex 32 > mine)\ntandem bench --token-file=mine"), "")

    def test_a_path_that_is_not_there(self):
        self.assertIn("scripts/no-such does not exist", self.wrong("scripts/no-such"))

    def test_a_placeholder(self):
        self.assertIn("'HOST' is no value", self.wrong(PATH + "tandem bench --orchestrator=HOST:50050"))

    def test_minutes_that_nobody_was_told_of(self):
        self.assertIn("it takes minutes", self.wrong(PATH + "tandem bench --concurrency=1,8"))
        self.assertEqual(self.wrong(PATH + "tandem bench --concurrency=1,8  # two minutes"), "")

    def test_what_is_no_shell(self):
        self.assertIn("is no shell", self.wrong("for x in; do"))

    # The overlay for cards waits for a cluster that has some.
    def test_who_wants_a_card_reads_first_what_ran_on_one(self):
        for name in ("kustomization.yaml", "target.yaml"):
            first = (ROOT / "k8s/overlays/gpu" / name).read_text().split("\n")[0]
            self.assertIn("Not run in a cluster with cards", first, name)
        self.assertIn("Not run in a cluster with cards", (ROOT / "k8s/README.md").read_text().split("\n")[2])
        self.assertIn("](#runs-on-a-card)", " ".join((ROOT / "docs/gpu.md").read_text().split("\n")[:4]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
