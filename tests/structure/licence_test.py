"""Every file has a licence: REUSE.toml says which, and what leaves the repository by itself has a
line of it."""
import pathlib
import subprocess
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = "SPDX-License-Identifier: "


def without_line(root, names):
    """Sources of packages whose first two lines do not name the licence."""
    return [name for name in names if name.endswith((".py", ".go", ".toml", "/generate"))
            and not any(LINE + "Apache-2.0" in line for line in (root / name).read_text().split("\n")[:2])]


class Licence(unittest.TestCase):
    def setUp(self):
        self.annotations = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"]

    def test_all_files_are_covered_by_a_licence_whose_text_is_here(self):
        self.assertEqual(self.annotations[0]["path"], "**")
        for annotation in self.annotations:
            text = ROOT / f"LICENSES/{annotation['SPDX-License-Identifier']}.txt"
            self.assertGreater(len(text.read_text()), 1000, text)
            paths = annotation["path"] if isinstance(annotation["path"], list) else [annotation["path"]]
            for path in paths:
                self.assertTrue(any(ROOT.glob(path)), path)

    def test_what_others_made_is_named(self):
        page = (ROOT / "tests/integration/prompt_sets/README.md").read_text()
        by_path = {path: one["SPDX-License-Identifier"] for one in self.annotations
                   for path in (one["path"] if isinstance(one["path"], list) else [one["path"]])}
        for file in ROOT.glob("tests/integration/prompt_sets/*.jsonl"):
            row = next(line for line in page.split("\n") if f"`{file.name}`" in line)
            self.assertIn("MIT" if by_path[str(file.relative_to(ROOT))] == "MIT" else "Apache 2.0", row)

    def test_packages_have_the_line(self):
        names = subprocess.run(["git", "ls-files", "clients"], cwd=ROOT, check=True, capture_output=True,
                               text=True).stdout.split()
        self.assertGreater(len(names), 10)
        self.assertEqual(without_line(ROOT, names), [])
        self.assertEqual(without_line(ROOT, ["tests/structure/links.py"]), ["tests/structure/links.py"])
        self.assertIn('license = "Apache-2.0"', (ROOT / "clients/python/pyproject.toml").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
