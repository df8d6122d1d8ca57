"""Builds the Python client as its users get it, and makes it importable: of the source distribution
alone.

Skips the whole test where scripts/setup has not put the packages that this needs.
"""

import atexit
import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))
from served import services  # noqa: E402

PROJECT = services.ROOT / "clients/python"
PINNED = hashlib.sha256((services.ROOT / "scripts/grpcio.txt").read_bytes()).hexdigest()[:16]
PACKAGES = services.CACHE / f"python-grpcio-{PINNED}"
# Compiled once a user, although ctest runs Python with -B.
BYTECODE = PACKAGES / "bytecode"
sys.pycache_prefix = str(BYTECODE)
sys.dont_write_bytecode = False


def environment(*path):
    """Of a program of Python that imports from `path`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONPYCACHEPREFIX": str(BYTECODE)}


def _hatchling(target, source, out):
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", out], cwd=source, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment(PACKAGES))
    assert done.returncode == 0, done.stdout


class Package:
    """Its folder lasts as long as this process."""

    def __init__(self):
        if not (PACKAGES / ".complete").exists():
            services.skip(f"no grpcio in {PACKAGES}; scripts/setup puts it there")
        self._folder = tempfile.TemporaryDirectory(prefix="tandem-client.")
        atexit.register(self._folder.cleanup)
        folder = pathlib.Path(self._folder.name)
        _hatchling("sdist", PROJECT, folder)
        (self.sdist,) = folder.glob("*.tar.gz")
        with tarfile.open(self.sdist) as archive:
            self.sdist_names = [name.partition("/")[2] for name in archive.getnames()]
            archive.extractall(folder / "unpacked")
        (source,) = (folder / "unpacked").iterdir()
        _hatchling("wheel", source, folder)
        (self.wheel,) = folder.glob("*.whl")
        self.site = folder / "site"
        with zipfile.ZipFile(self.wheel) as archive:
            self.wheel_names = archive.namelist()
            archive.extractall(self.site)
        self.environment = environment(self.site, PACKAGES)  # of programs that import the package
        sys.path[:0] = [str(self.site), str(PACKAGES)]

    def metadata(self):
        (path,) = self.site.glob("*.dist-info/METADATA")
        return path.read_text()


PACKAGE = Package()
