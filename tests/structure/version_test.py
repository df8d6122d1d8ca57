"""The version stands in CMakeLists.txt, and scripts/set-version takes all that has to spell it out
along."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPELLED = ("CMakeLists.txt", "Dockerfile", "clients/python/pyproject.toml", "compose.yaml", "docs/containers.md", "k8s",
           "scripts/lib.sh", "scripts/set-version")
OURS = re.compile(r"(?:project\(tandem VERSION |ARG VERSION=|^version = \"|image: tandem[\w-]*:|newTag: )(\d[\w.-]*)", re.MULTILINE)


def versions(root):
    """Each of our versions that a file spells out, and how often."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name != "cert-manager.yaml":
            for version in OURS.findall(path.read_text(errors="replace")):
                found[version] = found.get(version, 0) + 1
    return found


class Version(unittest.TestCase):
    def test_one_place_and_what_follows_it(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in SPELLED:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                copy(ROOT / name, root / name)
            before = versions(root)
            self.assertEqual(len(before), 1, before)
            count = sum(before.values())
            self.assertGreater(count, 20)
            subprocess.run([root / "scripts/set-version", "9.8.7"], check=True, timeout=30)
            self.assertEqual(versions(root), {"9.8.7": count})
            printed = subprocess.run([root / "scripts/set-version"], check=True, capture_output=True, text=True, timeout=30)
            self.assertEqual(printed.stdout, "9.8.7\n")

    def test_what_is_no_version(self):
        refused = subprocess.run([ROOT / "scripts/set-version", "v1"], capture_output=True, text=True, timeout=30)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("'v1' is not a version", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
