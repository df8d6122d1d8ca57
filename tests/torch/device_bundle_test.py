"""scripts/device-bundle: packed, and run in an empty folder as on a machine with LibTorch, a
compiler and no network. Without a card."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(
    os.environ.get("TANDEM_CACHE") or
    pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tandem")
TORCH = next(iter(sorted(CACHE.glob("libtorch-*/torch"))), None)
MAX_BYTES = 60 << 20
# Packages of Debian whose headers any machine with a compiler has, under whatever name.
COMPILER = re.compile(r"(libc6|linux-libc|libstdc\+\+-\d+|libgcc-\d+|libclang-common-\d+)-dev(:\w+)?$")


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)


class DeviceBundleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="tandem-device."))).resolve()
        bundle = cls.folder / "bundle.tar.gz"
        done = run(ROOT / "scripts/device-bundle", bundle)
        assert done.returncode == 0, done.stderr
        cls.size = bundle.stat().st_size
        done = run("tar", "xzf", bundle, "-C", cls.folder)
        assert done.returncode == 0, done.stderr
        cls.root = cls.folder / "tandem-device"

    def test_it_is_small_and_whole(self):
        self.assertLess(self.size, MAX_BYTES)
        self.assertGreater(self.size, 10 << 20)
        for path in ("run", "REVISION", "sources/torch/aten/decoder_step.cc", "sources/target_service/engine/torch/torch_factories.cc",
                     "sources/demo/target/model.safetensors", "third_party/usr/include/absl/status/status.h",
                     "third_party/cuda-crt/crt/host_config.h"):
            self.assertTrue((self.root / path).is_file(), path)
        outside = [path for path in self.root.rglob("*")
                   if path.is_symlink() and not (path.exists() and path.resolve().is_relative_to(self.root))]
        self.assertEqual(outside, [])

    def test_without_libtorch_it_says_so(self):
        done = run(self.root / "run", "--device=torch-cpu", f"--torch={self.folder}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no LibTorch in", done.stderr)

    def test_it_builds_tests_and_writes_its_rows(self):
        # No cache, none of our settings
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        done = run(self.root / "run", "--device=torch-cpu", f"--torch={TORCH}", "--shapes=tiny", env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [line.strip("| ").split(" | ") for line in (self.root / "rows.md").read_text().splitlines()[2:]]
        self.assertEqual([row[5] for row in rows],
                         ["`torch_tests`", "`torch_step_tests`", "`kernels_tests`", "`kernel_compiler_tests`",
                          "`--check-device` demo", "`--check-device` random tiny"])
        for row in rows:
            self.assertRegex(row[0], r"^\d{4}-\d\d-\d\d$")
            self.assertEqual(row[3], re.search(r"libtorch-([\d.]+)", str(TORCH))[1])
            self.assertRegex(row[6], "^passed, [1-9]" if "tests" in row[5] else "^passed; gather: 1 rows .*serves as torch-")
        self.assertTrue((self.root / "build/lib/libtandem_torch_cuda.so").is_file())
        self.check_that_nothing_was_borrowed()

    def check_that_nothing_was_borrowed(self):
        """This machine has all that a bare one lacks: no header and no library of it may have been
        used."""
        build = self.root / "build"
        listed = run("ninja", "-C", build, "-t", "deps").stdout
        used = {os.path.normpath(build / line.strip()) for line in listed.splitlines() if line.startswith("    ")}
        self.assertTrue(any("third_party/usr/include/absl" in path for path in used))
        for line in (build / "build.ninja").read_text().splitlines():
            if line.strip().startswith("LINK_LIBRARIES"):
                used.update(word for word in line.split() if word.startswith("/"))
        own = (str(self.root), str(TORCH.parent))  # with the wheels that LibTorch requires
        foreign = sorted(path for path in used if not path.startswith(own) and not path.startswith("/usr/lib/gcc"))
        packages = run("dpkg-query", "-S", *foreign)
        self.assertEqual(packages.stderr, "", "files of no package")
        borrowed = [line for line in packages.stdout.splitlines() if not COMPILER.match(line.split(": ")[0].split(",")[0])]
        self.assertEqual(borrowed, [])


if __name__ == "__main__":
    if TORCH is None or run("dpkg-query", "-W", "libabsl-dev").returncode != 0:
        print("SKIPPED: the whole test: no LibTorch in the cache folder; scripts/setup puts it there")
    else:
        unittest.main(verbosity=2)
