"""OpenAI's package for Node and Vercel's AI SDK against the services. scripts/client-tools installs
them."""

import hashlib
import pathlib
import shutil
import subprocess
import unittest

from served import ROOT, Served, services

PINNED = hashlib.sha256((ROOT / "scripts/node-clients/package-lock.json").read_bytes()).hexdigest()[:16]
FOLDER = services.CACHE / f"node-clients-{PINNED}"
if not shutil.which("node") or not (FOLDER / "node_modules").exists():
    services.skip(f"no node, or no packages in {FOLDER}; scripts/client-tools puts them there")


class Node(unittest.TestCase):
    def test_the_packages_calls(self):
        with Served() as served:
            script = pathlib.Path(__file__).with_name("node_clients.mjs")
            done = subprocess.run(["node", script, served.url("/v1"), FOLDER], capture_output=True, text=True,
                                  timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
