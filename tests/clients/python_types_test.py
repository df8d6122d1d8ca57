"""The types of the Python client, by mypy: of the package itself, and of what its users write."""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import unittest

from package import PACKAGE, PACKAGES, PROJECT, environment, services

PINNED = hashlib.sha256((services.ROOT / "scripts/mypy.txt").read_bytes()).hexdigest()[:16]
MYPY = services.CACHE / f"python-mypy-{PINNED}"
if not (MYPY / ".complete").exists():
    services.skip(f"no mypy in {MYPY}; scripts/client-tools puts it there")

USE = """
from tandem_client import Client, Message

messages: list[Message] = [{"role": "user", "content": "Hello"}]
with Client() as client:
    with client.stream(messages, max_tokens=4, stop=["x"], draft_tokens="auto") as stream:
        for delta in stream:
            reveal_type(delta.text)
    reveal_type(stream.result().record.accepted_tokens)
    reveal_type(client.describe().welcome.model_id)
    reveal_type(client.tokenize(messages, add_generation_prompt=False).token_ids[0])
    reveal_type(client.models()[0].id)
    client.generate("x", max_tokens="4")
    client.generate("x", colour=1)
    parts: list[Message] = [{"role": "user", "content": [{"type": "text", "text": "Hello"}], "refusal": None}]
    client.generate([*parts, stream.result().message])
"""
# What mypy is to say of it.
SAID = ['7: note: Revealed type is "str"', '8: note: Revealed type is "int"', '9: note: Revealed type is "str"',
        '10: note: Revealed type is "int"', '11: note: Revealed type is "str"',
        '12: error: Argument "max_tokens"', '13: error: Unexpected keyword argument "colour"']


class TypesTest(unittest.TestCase):
    def mypy(self, *words):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-m", "mypy", f"--config-file={PROJECT}/pyproject.toml", f"--cache-dir={cache}",
                 "--hide-error-context", "--no-pretty", *words],
                cwd=cache, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env=environment(PACKAGE.site, PACKAGES, MYPY))
            return done.returncode, done.stdout

    def test_the_package(self):
        code, said = self.mypy("--package=tandem_client")
        self.assertEqual(code, 0, said)

    def test_what_users_write(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "use.py"
            file.write_text(USE.lstrip())
            code, said = self.mypy(str(file))
        self.assertEqual(code, 1, said)
        for line in SAID:
            self.assertIn(f"use.py:{line}", said)
        self.assertEqual(said.count("error:"), 2, said)


if __name__ == "__main__":
    unittest.main()
