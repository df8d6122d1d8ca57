"""The commands of README.md, docs/usage.md and docs/security.md, run as they stand, one page after
the other."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/observability"))
import services  # noqa: E402

PAGES = ("README.md", "docs/usage.md", "docs/security.md")
# What builds, needs a container engine or a cluster, or takes minutes by its own word: the other
# tests run these.
ELSEWHERE = re.compile(r"^(scripts/(?!certs)|docker |kubectl |cmake )|--concurrency")
FILES = {"chats.jsonl": '{"messages": [{"role": "user", "content": "What is a draft?"}]}\n' * 2}


def script(page):
    """The page's blocks, each with its line number, without the commands that are left out; and
    these."""
    kept, left_out = [], []
    for line, block in blocks.blocks(page):
        left_out += [command for command in block.split("\n") if ELSEWHERE.search(command)]
        kept.append((line, "\n".join(command for command in block.split("\n") if not ELSEWHERE.search(command))))
    return kept, left_out


class Commands(unittest.TestCase):
    def run_page(self, page):
        kept, _ = script(page)
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("demo", "docs", "proto", "scripts"):
                (root / name).symlink_to(ROOT / name)
            (root / "build/release").mkdir(parents=True)
            (root / "build/release/bin").symlink_to(services.BINARIES)
            for name, text in FILES.items():
                (root / name).write_text(text)
            steps = "".join(f"echo {line} >step\n{block}\n" for line, block in kept)
            process = subprocess.Popen(["bash", "-ec", f"trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n{steps}"], cwd=root,
                                       env={**os.environ, "HOME": str(pathlib.Path.home())}, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            output, _ = process.communicate(timeout=600)
            at = (root / "step").read_text().strip()
            self.assertEqual(process.returncode, 0, f"the block at line {at}\n{output[-2000:]}")

    def test_the_pages(self):
        for page in PAGES:
            with self.subTest(page):
                self.run_page((ROOT / page).read_text())

    def test_few_are_left_out(self):
        for page in PAGES:
            kept, left_out = script((ROOT / page).read_text())
            commands = sum(len(blocks.commands(block)) for _, block in kept)
            self.assertGreater(commands, 3 * len(left_out), (page, left_out))

    def test_a_command_that_fails(self):
        with self.assertRaisesRegex(AssertionError, "the block at line 2\n.*no-such-flag"):
            self.run_page('```sh\nexport PATH="$PWD/build/release/bin:$PATH"\ntandem generate --no-such-flag\n```\n')


if __name__ == "__main__":
    services.tool("grpcurl")
    unittest.main(verbosity=2)
