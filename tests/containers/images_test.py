"""The images of Dockerfile, built: what is in them, what is not, and whether they serve a request.

Where there is no docker: `scripts/images --trees` builds them by buildah. Needs root; the first run
takes up to an hour. """

import filecmp
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import container_files
import image_trees
import yaml
from container_files import ROOT, SERVICES
from image_trees import IMAGES, Container, config, files, run, tree, until

# Names of what must not be there: compilers and what belongs to them, other languages, what
# downloads.
TOOLS = re.compile(r"(x86_64-linux-gnu-)?(gcc|g\+\+|cc|c\+\+|cpp|clang|clang\+\+|ld|gold|as|ar|strip)(-[\d.]+)?"
                   r"|ld\.(bfd|gold)|cc1(plus)?|collect2|make|cmake|ninja|ccache|cargo|rustc|go|python3?[\d.]*|pip3?|curl|wget|git")
LIBTORCH = re.compile(r"lib(torch|c10|gomp|cudart|shm)\w*\.so")
CLIENT = "tandem"


def megabytes(paths):
    return sum(path.stat().st_size for path in paths) / 1e6


def tools(named):
    """Of {path inside: path}: the programs that no runtime image has."""
    return [inside for inside, path in named if TOOLS.fullmatch(path.name) and path.stat().st_mode & 0o111]


class ContentsTest(unittest.TestCase):
    maxDiff = None

    def test_no_compiler_no_libtorch(self):
        for image in IMAGES:
            with self.subTest(image):
                self.assertEqual(tools(files(image)), [])
                self.assertEqual([inside for inside, path in files(image) if LIBTORCH.match(path.name)], [])
        here = [(str(path), path) for path in pathlib.Path("/usr/bin").iterdir() if path.is_file()]
        self.assertTrue(any("g++" in inside for inside in tools(here)), "the search finds no compiler on a machine with one")

    def test_one_binary_each_with_all_its_libraries(self):
        for image in (*SERVICES, CLIENT):
            with self.subTest(image):
                own = [inside for inside, _ in files(image) if pathlib.Path(inside).name.startswith("tandem")]
                self.assertEqual(own, [f"/usr/local/bin/{image}"])
                status, text = run(image, "ldd", own[0])
                self.assertEqual(status, 0, text)
                self.assertNotIn("not found", text)
                self.assertIn("libgrpc++.so", text)
                headers = subprocess.run(["readelf", "-dS", tree(image) / own[0][1:]], capture_output=True, text=True, check=True)
                self.assertNotRegex(headers.stdout, r"R(UN)?PATH|\.symtab")

    def test_the_client_alone_downloads(self):
        for image in IMAGES:
            with self.subTest(image):
                curl = [inside for inside, path in files(image) if path.name.startswith("libcurl")]
                bundle = tree(image) / "etc/ssl/certs/ca-certificates.crt"
                self.assertEqual((bool(curl), bundle.exists()), (image == CLIENT, image == CLIENT))
        debian = list((tree(CLIENT) / "usr/share/ca-certificates").rglob("*.crt"))
        trusted = (tree(CLIENT) / "etc/ssl/certs/ca-certificates.crt").read_text().count("BEGIN CERTIFICATE")
        self.assertEqual(trusted, len(debian), "it trusts others than Debian does")

    def test_nothing_of_the_machine_that_built_it(self):
        for image in IMAGES:
            with self.subTest(image):
                for folder in ("etc/apt/sources.list.d", "usr/local/share/ca-certificates", "root/.cache", "usr/src"):
                    # Empty folders are where something was mounted for a step.
                    self.assertEqual([path for path in (tree(image) / folder).rglob("*") if not path.is_dir()], [], folder)
                self.assertFalse((tree(image) / "etc/apt/sources.list").exists())

    def test_what_an_image_says_of_itself(self):
        version = re.search(r"project\(tandem VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        for image in IMAGES:
            with self.subTest(image):
                said = config(image)
                self.assertEqual(said["User"], container_files.USER)
                self.assertEqual(said["Labels"]["org.opencontainers.image.version"], version)
                if image in SERVICES:
                    self.assertEqual(said["StopSignal"], "SIGTERM")

    def test_nothing_but_scratch_is_writable(self):
        for image in IMAGES:
            with self.subTest(image):
                open_to_all = [inside for inside, path in files(image) if path.stat().st_mode & 0o002]
                self.assertEqual(open_to_all, [])
                owned = [inside for inside, path in files(image) if path.stat().st_uid == 65532]
                self.assertEqual(owned, [])


class ServingTest(unittest.TestCase):
    """The services as compose.yaml starts them: its flags, its mounts, its way of asking for their
    health."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-images.")
        cls.addClassCleanup(cls.folder.cleanup)
        path = pathlib.Path(cls.folder.name)
        cls.compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
        cls.models = {}
        for name in ("draft", "target"):
            cls.models[name] = path / name
            cls.models[name].mkdir()
            shutil.chown(cls.models[name], 65532, 65532)
        names = " ".join(container_files.names_on_network(cls.compose))
        (path / "hosts").write_text(f"127.0.0.1 localhost {names}\n")
        cls.hosts = path / "hosts"

    def mounts(self, name):
        inside = {point: ROOT / here for point, here in container_files.mounts(self.compose[name]).items()}
        for point, here in inside.items():
            if point.startswith("/model"):  # the copies of the init container, not the repository's
                inside[point] = pathlib.Path(str(here).replace(str(ROOT / "demo"), self.folder.name))
        return {**inside, "/etc/hosts": self.hosts}

    def generate(self, *more):
        return run(CLIENT, arguments=["generate", "--prompt=Once upon a time", "--orchestrator=tandem-orchestrator:50050",
                                      "--max-tokens=32", "--temperature=0", "--format=json", *more],
                   mounts={"/etc/hosts": self.hosts})

    def healthy(self, name, text=lambda words: words):
        test = self.compose[name]["healthcheck"]["test"]
        return run(name, *[text(word.replace("$$", "$")) for word in test[1:]])[0] == 0

    def test_a_request(self):
        # What the init containers of k8s/overlays/cpu-only do
        for name, folder in self.models.items():
            status, text = run("tandem-demo-models", "cp", "-r", f"/models/{name}/.", "/model/", mounts={"/model": folder},
                               writable=["/model"])
            self.assertEqual(status, 0, text)
            self.assertEqual(filecmp.dircmp(folder, ROOT / "demo" / name).diff_files, [])
            self.assertEqual(sorted(one.name for one in folder.iterdir()), sorted(one.name for one in (ROOT / "demo" / name).iterdir()))

        self.assertFalse(self.healthy("tandem-draft"), "healthy before it was started")
        running = {}
        for name in SERVICES:
            running[name] = Container(name, arguments=self.compose[name]["command"], mounts=self.mounts(name))
            self.addCleanup(running[name].end)

        def ready():
            for name, container in running.items():
                self.assertIsNone(container.process.poll(), f"{name} ended:\n{container.text()}")
            return self.generate()[0] == 0

        until("a first answer", ready)
        for name, container in running.items():
            with self.subTest(name):
                self.assertTrue(self.healthy(name), name)
                self.assertFalse(self.healthy(name, lambda word: word.replace("/metrics", "/nothing")), name)
                status = container.status()
                self.assertEqual(status["Uid"].split(), ["65532"] * 4)
                self.assertEqual(status["Gid"].split(), ["65532"] * 4)
                self.assertEqual(int(status["CapEff"], 16), 0)
                self.assertEqual(status["NoNewPrivs"], "1")
                self.assertEqual(status["NSpid"].split()[-1], "1")
                code, text = run(name, "touch", "/tmp/file")
                self.assertNotEqual(code, 0)
                self.assertIn("Read-only file system", text)

        answers = []
        for more in ([], ["--draft-tokens=0"]):
            status, text = self.generate(*more)
            self.assertEqual(status, 0, text)
            answers.append(json.loads(text.strip().splitlines()[-1]))
        drafted, alone = answers
        print("a request through the images:", json.dumps(drafted)[:600])
        self.assertEqual(len(drafted["token_ids"]), 32)
        self.assertEqual(drafted["token_ids"], alone["token_ids"])
        self.assertGreater(drafted["speculation"]["accepted_tokens"], 0)
        self.assertEqual(alone["speculation"]["draft_tokens"], 0)

        for name in reversed(SERVICES):
            grace = container_files.seconds(self.compose[name]["stop_grace_period"])
            self.assertEqual(running[name].stop(grace), 0, running[name].text())


def print_sizes():
    base = {inside for inside, _ in files("tandem-demo-models") if not inside.startswith("/models/")}
    print(f"{'MB':24}{'all':>8}{'Debian':>8}{'libraries':>11}{'own':>8}{'LibTorch':>10}")
    for image in IMAGES:
        named = dict(files(image))
        own = [path for inside, path in named.items() if inside.startswith(("/usr/local/bin/", "/models/"))]
        torch = [path for path in named.values() if LIBTORCH.match(path.name)]
        debian = [path for inside, path in named.items() if inside in base]
        total = megabytes(named.values())
        libraries = total - megabytes(own) - megabytes(debian) - megabytes(torch)
        print(f"{image:24}{total:8.1f}{megabytes(debian):8.1f}{libraries:11.1f}{megabytes(own):8.1f}{megabytes(torch):10.1f}")


if __name__ == "__main__":
    image_trees.build()
    print_sizes()
    image_trees.own_network()
    unittest.main(verbosity=2)
