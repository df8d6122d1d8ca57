"""The messages are as buf's standard rules want them, but for the exceptions in buf.yaml."""
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/observability"))
import services  # noqa: E402

BUF = services.tool("buf")


class Protos(unittest.TestCase):
    def lint(self, *arguments):
        return subprocess.run([BUF, "lint", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=50)

    def test_they_are_clean(self):
        lint = self.lint()
        self.assertEqual((lint.returncode, lint.stdout, lint.stderr), (0, "", ""))

    def test_an_exception_that_nothing_needs_is_none(self):
        """With the standard rules alone, each exception of buf.yaml is broken."""
        exceptions = {line.split("- ")[1] for line in (ROOT / "buf.yaml").read_text().split("ignore:")[0].splitlines()
                      if line.startswith("    - ")} - {"STANDARD"}
        rules = '{"version": "v2", "modules": [{"path": "proto"}], "lint": {"use": ["STANDARD"], "ignore": ["proto/grpc"]}}'
        lint = self.lint("--error-format=json", "--config", rules)
        broken = {line.split('"type":"')[1].split('"')[0] for line in lint.stdout.splitlines()}
        self.assertEqual(broken, exceptions, lint.stdout)


if __name__ == "__main__":
    unittest.main()
