"""Every link between pages leads to a file and a heading that are there."""
import pathlib
import tempfile
import unittest

import links

ROOT = pathlib.Path(__file__).parents[2]


class Links(unittest.TestCase):
    def dead(self, page, **others):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {"page.md": page, **{f"{name}.md": text for name, text in others.items()}}.items():
                (pathlib.Path(folder) / name).write_text(text)
            (pathlib.Path(folder) / "code.h").write_text("// Why: docs/none.md#here.\n")
            return links.dead_links(folder, ["page.md"]), links.dead_links(folder, ["code.h"])

    def test_the_pages_are_right(self):
        self.assertEqual(links.dead_links(ROOT, links.tracked(ROOT)), [])

    def test_a_file_that_is_not_there(self):
        self.assertEqual(self.dead("a\n[b](none.md)")[0], ["page.md:2: none.md: no such file"])

    def test_a_heading_that_is_not_there(self):
        self.assertEqual(self.dead("[b](other.md#c)", other="# B")[0], ["page.md:1: other.md#c: no such heading"])
        self.assertEqual(self.dead("[b](#c)\n# B c")[0], ["page.md:1: #c: no such heading"])

    def test_headings_that_are_there(self):
        self.assertEqual(self.dead("[b](other.md#b-c-d) [e](#e-1)\n# `e`\n## E", other="# B, `c` [d](x.md)")[0], [])

    def test_what_is_no_link(self):
        self.assertEqual(self.dead("`[a](b.md)`\n```\n[a](b.md)\n```\n[w](https://example.org/x.md)")[0], [])

    def test_a_page_that_a_source_names(self):
        self.assertEqual(self.dead("")[1], ["code.h:1: docs/none.md#here: no such file"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
