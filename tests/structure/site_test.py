"""mkdocs makes a site of the pages, and stops at a link that leads nowhere."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/observability"))
import services  # noqa: E402

PACKAGES = services.CACHE / f"python-mkdocs-{hashlib.sha256((ROOT / 'scripts/mkdocs.txt').read_bytes()).hexdigest()[:16]}"
if not PACKAGES.exists():
    services.skip(f"no mkdocs in {PACKAGES}; scripts/setup puts it there")


def build(root, site):
    return subprocess.run([sys.executable, "-B", "-m", "mkdocs", "build", "--strict", f"--site-dir={site}"], cwd=root,
                          env={**os.environ, "PYTHONPATH": str(PACKAGES)}, capture_output=True, text=True, timeout=50)


class Site(unittest.TestCase):
    def test_it_is_built(self):
        with tempfile.TemporaryDirectory() as site:
            done = build(ROOT, site)
            self.assertEqual(done.returncode, 0, done.stderr)
            for page in ("index.html", "docs/usage/index.html", "docs/adr/index.html"):
                self.assertTrue((pathlib.Path(site) / page).exists(), page)

    def test_a_link_that_leads_nowhere(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            shutil.copy(ROOT / "docs/mkdocs_hooks.py", root / "docs")
            config = (ROOT / "mkdocs.yml").read_text().split("nav:\n  -")[0]
            (root / "mkdocs.yml").write_text(config)
            (root / "README.md").write_text("[here](#what-is-not-there) [there](none.md)\n\n# Top\n")
            done = build(root, root / "site")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("#what-is-not-there", done.stderr)
            self.assertIn("none.md", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
