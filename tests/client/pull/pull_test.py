"""`tandem pull` and what takes names of the hub, against a server that answers like it."""

import importlib.util
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from hub_server import COMMIT, Hub, Repository, etag_of

BINARIES = pathlib.Path(os.environ.get("TANDEM_BINARY_DIR", "build/release/bin")).resolve()
DEMO = pathlib.Path(__file__).resolve().parents[3] / "demo"
WEIGHTS = bytes(range(256)) * 4096  # 1 MiB

SMALL = {"config.json": b"{}", "generation_config.json": b'{"a": 1}', "tokenizer.json": b'{"t": 1}',
         "tokenizer_config.json": b'{"c": 1}'}
OTHER = {"README.md": b"read me", "pytorch_model.bin": b"pickled", "onnx/model.safetensors": b"other", ".gitattributes": b""}


def index_of(*files):
    pairs = ", ".join(f'"t{number}": "{file}"' for number, file in enumerate(files))
    return f'{{"weight_map": {{{pairs}}}}}'.encode()


class PullTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        folder = tempfile.TemporaryDirectory(prefix="tandem-pull.")
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.cache = self.home / "hub"
        self.folder = self.cache / "models--owner--name"
        self.snapshot = self.folder / "snapshots" / COMMIT
        self.hub.repositories["owner/name"] = Repository({**SMALL, **OTHER, "model.safetensors": WEIGHTS})

    @property
    def repository(self):
        return self.hub.repositories["owner/name"]

    @property
    def faults(self):
        return self.hub.faults

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_") and "proxy" not in name.lower()}
        return {**kept, "HOME": str(self.home), "HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.endpoint,
                "HF_HUB_DOWNLOAD_TIMEOUT": "20", **more}

    def start(self, *words, program="tandem", **more):
        return subprocess.Popen([BINARIES / program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment(**more))

    def pull(self, name="owner/name", *words, **more):
        process = self.start("pull", name, *words, **more)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def pulled(self, *words, **more):
        done = self.pull(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refused(self, *words, code=1, **more):
        done = self.pull(*words, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        last = done.stderr.strip().splitlines()[-1]
        self.assertTrue(last.startswith("error: "), done.stderr)
        return last

    def check_whole(self, names=(*SMALL, "model.safetensors")):
        """The layout is huggingface_hub's, and nothing else is there."""
        self.assertEqual(sorted(one.name for one in self.snapshot.iterdir()), sorted(names))
        for name in names:
            content = self.repository.files[name]
            self.assertEqual(os.readlink(self.snapshot / name), f"../../blobs/{etag_of(name, content)}")
            self.assertEqual((self.snapshot / name).read_bytes(), content, name)
        blobs = {etag_of(name, self.repository.files[name]) for name in names}
        self.assertEqual({one.name for one in (self.folder / "blobs").iterdir()}, blobs)
        self.assertEqual((self.folder / "refs/main").read_text(), COMMIT)


class LayoutTest(PullTest):
    def test_what_belongs_to_a_model_and_no_more(self):
        done = self.pulled()
        self.assertEqual(done.stdout, f"{self.snapshot}\n")
        self.check_whole()
        self.assertTrue((self.cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55"))
        self.assertTrue((self.cache / ".locks/models--owner--name" / f"{etag_of('model.safetensors', WEIGHTS)}.lock").exists())
        self.assertIn("owner/name: 5 files, 1 MB", done.stderr)
        self.assertIn(f"commit {COMMIT}", done.stderr)

    def test_what_is_there_is_not_downloaded_again(self):
        self.pulled()
        before = len(self.hub.requests)
        self.pulled()
        self.assertEqual([one.path for one in self.hub.requests[before:]], ["/api/models/owner/name/revision/main"])
        # A commit never changes: nobody is asked.
        self.pulled(f"owner/name@{COMMIT}")
        self.assertEqual(len(self.hub.requests), before + 1)

    def test_a_new_commit_downloads_what_changed(self):
        self.pulled()
        self.repository.commit = self.repository.revisions["main"] = "f" * 40
        self.repository.files["config.json"] = b'{"new": 1}'
        done = self.pulled()
        self.assertEqual(done.stdout, f"{self.folder}/snapshots/{'f' * 40}\n")
        self.assertEqual(len(self.hub.downloads("model.safetensors")), 1)
        self.assertEqual((self.snapshot / "config.json").read_bytes(), b"{}")
        self.assertEqual((self.folder / "refs/main").read_text(), "f" * 40)

    def test_the_weights_are_those_of_the_index(self):
        del self.repository.files["model.safetensors"]
        shards = {"model-1-of-2.safetensors": b"one", "model-2-of-2.safetensors": b"two"}
        self.repository.files.update(shards)
        self.repository.files["consolidated.safetensors"] = b"the same again"
        self.repository.files["model.safetensors.index.json"] = index_of(*shards)
        self.pulled()
        self.check_whole([*SMALL, *shards, "model.safetensors.index.json"])

    def test_the_tokenizer_alone(self):
        self.assertIn("owner/name: 2 files", self.pulled("owner/name", "--tokenizer-only").stderr)
        self.check_whole(["tokenizer.json", "tokenizer_config.json"])
        self.pulled()
        self.check_whole()

    def test_one_gguf_file_and_no_more(self):
        self.repository.files["q/m.gguf"] = WEIGHTS
        self.faults.cut["q/m.gguf"] = (300000, 1)
        done = self.pulled("owner/name:q/m.gguf")
        self.assertEqual(done.stdout, f"{self.snapshot}/q/m.gguf\n")
        self.assertEqual((self.snapshot / "q/m.gguf").read_bytes(), WEIGHTS)
        self.assertEqual([one.headers.get("Range") for one in self.hub.downloads("q/m.gguf")], [None, "bytes=300000-"])
        self.assertEqual([one.name for one in self.snapshot.iterdir()], ["q"])
        self.assertEqual(self.pulled(f"owner/name@{COMMIT}:q/m.gguf").stdout, done.stdout)
        # Nobody takes it for the model that the repository is.
        self.assertIn("owner/name: 5 files", self.pulled().stderr)

    def test_all_parts_of_a_gguf_file(self):
        parts = {f"m-0000{part}-of-00002.gguf": b"part %d" % part for part in (1, 2)}
        self.repository.files.update(parts)
        self.faults.content["m-00002-of-00002.gguf"] = b"part X"
        self.assertIn("m-00002-of-00002.gguf", self.refused("owner/name:m-00001-of-00002.gguf"))
        del self.faults.content["m-00002-of-00002.gguf"]
        self.assertEqual(self.pulled("owner/name:m-00001-of-00002.gguf").stdout, f"{self.snapshot}/m-00001-of-00002.gguf\n")
        self.check_whole(list(parts))
        self.assertIn("it has m-00001-of-00002.gguf", self.refused("owner/name:other.gguf"))
        self.assertIn("give the first part", self.refused("owner/name:m-00002-of-00002.gguf"))
        self.assertIn("--tokenizer-only", self.refused("owner/name:m-00001-of-00002.gguf", "--tokenizer-only", code=2))

    def test_further_chat_templates_lie_in_a_folder(self):
        name, text = "additional_chat_templates/tool_use.jinja", b"{{ messages }}"
        self.repository.files[name] = text
        self.repository.files["additional_chat_templates/notes.txt"] = b"not wanted"
        self.pulled("owner/name", "--tokenizer-only")
        self.assertEqual(os.readlink(self.snapshot / name), f"../../../blobs/{etag_of(name, text)}")
        self.assertEqual((self.snapshot / name).read_bytes(), text)
        self.assertEqual([one.name for one in (self.snapshot / name).parent.iterdir()], ["tool_use.jinja"])

    def test_what_a_repository_does_not_have_is_written_down(self):
        del self.repository.files["generation_config.json"]
        self.pulled()
        self.assertEqual([one.name for one in (self.folder / ".no_exist" / COMMIT).iterdir()], ["generation_config.json"])

    def test_a_repository_that_was_renamed(self):
        old = self.hub.repositories["old/name"] = Repository({})
        old.renamed = "owner/name"
        self.assertIn("models--old--name", self.pulled("old/name").stdout)

    def test_revisions(self):
        self.repository.revisions["refs/pr/7"] = COMMIT
        self.pulled("owner/name@refs/pr/7")
        self.assertEqual((self.folder / "refs/refs/pr/7").read_text(), COMMIT)
        self.assertIn("owner/name has no revision v2; it has main, refs/pr/7", self.refused("owner/name@v2"))


class RefusalTest(PullTest):
    def test_names(self):
        for name in ("gpt2", "https://host/owner/name", "owner/name@../x", "a/b/c"):
            self.assertIn("OWNER/NAME@REVISION", self.refused(name, code=2))
        self.assertIn("give the model", self.refused(code=2, name="--tokenizer-only"))
        self.assertIn("one name too many", self.refused("owner/name", "other/name", code=2))
        self.assertIn("HF_ENDPOINT=nowhere", self.refused(HF_ENDPOINT="nowhere", code=2))

    def test_a_model_that_is_not_there_or_private(self):
        self.assertIn("has no model owner/nme, or it is private: check the name; no token is set", self.refused("owner/nme"))
        self.repository.token = "hf_right"
        self.assertIn("the token of HF_TOKEN may not see it", self.refused(HF_TOKEN="hf_other"))
        self.assertIn("does not take the token of HF_TOKEN", self.refused(HF_TOKEN="hf_wrong"))
        self.pulled(HF_TOKEN="hf_right")

    def test_a_gated_model(self):
        self.repository.gated, self.repository.token = True, "hf_right"
        said = self.refused()
        self.assertIn(f"owner/name is gated: accept its terms at {self.hub.endpoint}/owner/name", said)
        self.assertIn("may not see it", self.refused(HF_TOKEN="hf_other"))
        self.pulled(HF_TOKEN="hf_right")

    def test_a_token_stays_at_the_hub(self):
        self.repository.token = "hf_right"
        (self.home / "token").write_text("hf_right\n")
        self.pulled()
        self.assertEqual({one.headers.get("Authorization") for one in self.hub.of("hub") + self.hub.of("hub", "HEAD")},
                         {"Bearer hf_right"})
        self.assertTrue(self.hub.of("content"))
        for one in self.hub.of("content"):
            self.assertNotIn("Authorization", one.headers)

    def test_what_is_no_model_for_tandem(self):
        for files, said in (({"model.gguf": b""}, "as in OWNER/NAME:model.gguf"), ({"pytorch_model.bin": b""}, "safetensors"),
                            ({"adapter_model.safetensors": b""}, "adapter"), ({"model.safetensors": b""}, "no config.json"),
                            ({"model.safetensors": b"", "config.json": b"", "tokenizer.model": b""}, "tokenizer.model alone"),
                            ({"config.json": b"", "tokenizer.json": b"", "model.safetensors.index.json": index_of("m.safetensors")},
                             "names m.safetensors, which the repository does not have"),
                            ({"config.json": b"", "tokenizer.json": b"", "model.safetensors.index.json": index_of("../m.safetensors")},
                             "'../m.safetensors'")):
            self.repository.files = files
            self.assertIn(said, self.refused())
        self.assertFalse(self.hub.of("content"))

    def test_a_disk_that_is_too_small(self):
        self.faults.size["model.safetensors"] = 10**17
        self.assertIn("100000000.0 GB are to be downloaded", self.refused())
        self.assertEqual(self.hub.of("content"), [])

    def test_sizes_that_no_disk_has(self):
        self.faults.size["model.safetensors"] = 2**63 - 1
        self.assertIn("more than 9223372036854775807 bytes together", self.refused())
        self.faults.size["model.safetensors"] = 2**63 - 2**20  # with the other files just below
        self.assertIn("9223372036.9 GB are to be downloaded", self.refused())
        self.faults.size["model.safetensors"] = 2**63
        self.assertIn("the hub does not say how large it is", self.refused())
        del self.repository.files["model.safetensors"]
        shards = {f"model-{one}-of-3.safetensors": b"one" for one in range(3)}
        self.repository.files.update(shards)
        self.repository.files["model.safetensors.index.json"] = index_of(*shards)
        self.faults.size.update({name: 2**62 for name in shards})
        self.assertIn("more than 9223372036854775807 bytes together", self.refused())
        self.assertEqual(self.hub.of("content"), [])

    def test_nothing_but_a_regular_file_is_written_to(self):
        blobs = self.folder / "blobs"
        blobs.mkdir(parents=True)
        blob = blobs / etag_of("model.safetensors", WEIGHTS)
        for path in (blob, blob.with_name(f"{blob.name}.incomplete")):
            path.unlink(missing_ok=True)  # what is whole but for its name
            os.mkfifo(path)
            self.assertIn(f"cannot write {path}: it is not a regular file", self.refused())
            path.unlink()
            other = self.home / "other"
            other.write_text("precious")
            path.symlink_to(other)
            self.assertIn(f"cannot write {path}: it is a symbolic link", self.refused())
            self.assertEqual(other.read_text(), "precious")
            path.unlink()
        self.pulled()
        self.check_whole()

    def test_a_cache_that_cannot_be_written(self):
        (self.home / "file").write_text("")
        self.assertIn("HF_HOME says where the cache is", self.refused(HF_HOME=str(self.home / "file")))

    def test_what_is_no_hub(self):
        self.faults.status["/revision/main"] = (200, {}, 1)
        self.assertIn("HF_ENDPOINT must name a hub", self.refused())
        self.faults.status["/model.safetensors"] = (302, {"Location": "file:///etc/passwd", "X-Repo-Commit": COMMIT}, 1)
        self.assertIn("redirects to what is not an address of http", self.refused())
        odd = {"Location": self.hub.content, "X-Repo-Commit": COMMIT, "X-Linked-Etag": "../../x", "X-Linked-Size": "1"}
        self.faults.status["/model.safetensors"] = (302, odd, 1)
        self.assertIn("not a hash of the hub", self.refused())
        loop = {"Location": "/api/models/owner/name/revision/main"}
        self.faults.status["/revision/main"] = (307, loop, 100)
        before = len(self.hub.requests)
        self.assertIn("redirects more than 8 times", self.refused())
        self.assertEqual(len(self.hub.requests), before + 9)


class FaultTest(PullTest):
    def test_a_cut_in_mid_file_is_resumed(self):
        self.faults.cut["model.safetensors"] = (300_000, 1)
        done = self.pulled()
        self.check_whole()
        ranges = [one.headers.get("Range") for one in self.hub.downloads("model.safetensors")]
        self.assertEqual(ranges, [None, "bytes=300000-"])
        self.assertIn("again in", done.stderr)

    def test_another_process_goes_on_where_one_ended(self):
        self.faults.stall["model.safetensors"] = 1
        self.faults.cut["model.safetensors"] = (300_000, 1)
        first = self.start("pull", "owner/name")
        incomplete = self.folder / "blobs" / f"{etag_of('model.safetensors', WEIGHTS)}.incomplete"
        self.until(lambda: incomplete.exists() and incomplete.stat().st_size > 0)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        self.assertFalse((self.folder / "refs/main").exists())
        held = incomplete.stat().st_size
        self.faults.cut.clear()
        self.assertIn("of it here already", self.pulled().stderr)
        self.assertEqual(self.hub.downloads("model.safetensors")[-1].headers["Range"], f"bytes={held}-")
        self.check_whole()

    def until(self, true):
        end = time.monotonic() + 20
        while not true():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def leave(self, content):
        blobs = self.folder / "blobs"
        blobs.mkdir(parents=True)
        (blobs / f"{etag_of('model.safetensors', WEIGHTS)}.incomplete").write_bytes(content)

    def test_a_wrong_beginning_is_noticed(self):
        self.leave(b"x" * 1000)
        self.assertIn("again from the start", self.pulled().stderr)
        self.check_whole()

    def test_a_beginning_that_is_too_long_is_dropped(self):
        self.leave(WEIGHTS + b"x")
        self.pulled()
        self.check_whole()

    def test_a_whole_file_that_lacks_its_name_alone(self):
        self.leave(WEIGHTS)
        self.pulled()
        self.check_whole()
        self.assertEqual(self.hub.downloads("model.safetensors"), [])

    def test_a_server_without_ranges(self):
        self.faults.ranges = False
        self.leave(WEIGHTS[:1000])
        self.pulled()
        self.check_whole()

    def test_a_wrong_hash(self):
        for name in ("config.json", "model.safetensors"):
            self.faults.content[name] = self.repository.files[name].swapcase()[::-1]
            self.assertIn(f"DATA_LOSS: {name} is not what the hub says it is", self.refused())
            etag = etag_of(name, self.repository.files[name])
            self.assertEqual([one for one in (self.folder / "blobs").iterdir() if one.name.startswith(etag)], [])
            self.assertFalse((self.folder / "refs").exists())
            del self.faults.content[name]
        self.pulled()
        self.check_whole()

    def test_tries_that_bring_next_to_nothing_come_to_an_end(self):
        """One server sends a byte per connection; the other begins again each time, now further,
        now less far."""
        other = Hub()
        self.addCleanup(other.close)
        other.repositories["owner/name"] = self.repository
        other.faults.ranges = False
        other.faults.pieces["model.safetensors"] = itertools.cycle([600_000, 300_000])
        self.faults.pieces["model.safetensors"] = itertools.repeat(1)
        processes = [self.start("pull", "owner/name"),
                     self.start("pull", "owner/name", HF_HOME=str(self.home / "2"), HF_ENDPOINT=other.endpoint)]
        for process, hub in zip(processes, (self.hub, other)):
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1, err)
            self.assertIn("are kept: `tandem pull` goes on there", err.splitlines()[-1])
            self.assertEqual(len(hub.downloads("model.safetensors")), 5)

    def test_what_a_server_says_of_an_error_has_an_end(self):
        self.faults.endless = "/revision/main"
        self.assertIn("a reply of status 500 has more than 1048576 bytes", self.refused())

    def test_more_bytes_than_were_said(self):
        self.faults.content["model.safetensors"] = WEIGHTS + b"x"
        self.assertIn("sends more of model.safetensors", self.refused())

    def test_a_server_that_says_nothing(self):
        self.faults.stall["model.safetensors"] = 1
        self.assertIn("nothing came for 1s (HF_HUB_DOWNLOAD_TIMEOUT)", self.pulled(HF_HUB_DOWNLOAD_TIMEOUT="1").stderr)
        self.check_whole()

    def test_a_hub_that_is_busy(self):
        self.faults.status["/revision/main"] = (429, {"Retry-After": "1"}, 1)
        self.faults.status["/config.json"] = (503, {}, 1)
        begin = time.monotonic()
        self.assertIn("answered 429", self.pulled().stderr)
        self.assertGreater(time.monotonic() - begin, 1)
        self.check_whole()

    def test_many_at_once_download_once(self):
        self.faults.cut["model.safetensors"] = (300_000, 1)  # so that one has the lock for a while
        many = [self.start("pull", "owner/name") for _ in range(4)]
        for one in many:
            _, err = one.communicate(timeout=60)
            self.assertEqual(one.returncode, 0, err)
        self.check_whole()
        self.assertEqual(len(self.hub.downloads("model.safetensors")), 2)
        self.assertEqual(len(self.hub.downloads("config.json")), 1)

    def test_nobody_answers(self):
        gone = {"HF_ENDPOINT": "http://127.0.0.1:9"}
        self.pulled()
        self.assertIn("taking what the cache has", self.pulled(**gone).stderr)
        self.assertIn("HF_ENDPOINT a mirror", self.refused("owner/other", **gone))

    def test_offline(self):
        self.assertIn("HF_HUB_OFFLINE forbids", self.refused(HF_HUB_OFFLINE="1"))
        self.assertEqual(self.hub.requests, [])
        self.pulled()
        self.assertEqual(self.pulled(HF_HUB_OFFLINE="1", HF_ENDPOINT="http://127.0.0.1:9").stdout, f"{self.snapshot}\n")


class ServiceTest(PullTest):
    """What takes a directory takes a name."""

    def setUp(self):
        super().setUp()
        for name in ("target", "draft"):
            files = {one.name: one.read_bytes() for one in (DEMO / name).iterdir() if one.is_file()}
            self.hub.repositories[f"demo-models/{name}"] = Repository(files)

    def run_until_ready(self, program, *words, **more):
        port = self.home / f"{program}.port"
        port.unlink(missing_ok=True)
        process = self.start(*words, "--listen=127.0.0.1:0", f"--port-file={port}", program=program, **more)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        end = time.monotonic() + 60
        while not port.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        return err

    def test_tandem_serve_pulls_what_is_not_there(self):
        words = ["serve", "--target-model=demo-models/target", f"--draft-model=demo-models/draft@{COMMIT}"]
        said = self.run_until_ready("tandem", *words)
        self.assertIn("demo-models/target is not in the cache: pulling it", said)
        self.assertIn("model_found name=demo-models/target", said)
        before = len(self.hub.requests)
        # It takes the same again, without asking anybody; so do the services.
        self.run_until_ready("tandem", *words, HF_ENDPOINT="http://127.0.0.1:9")
        self.run_until_ready("tandem-target", "--model=demo-models/target", "--measure=0s", HF_HUB_OFFLINE="1")
        self.assertEqual(len(self.hub.requests), before)

    def test_a_tokenizer(self):
        said = self.run_until_ready("tandem-draft", "--tokenizer=demo-models/draft")
        self.assertIn("model_found", said)
        self.assertFalse(self.hub.of("content"))
        self.run_until_ready("tandem-orchestrator", "--tokenizer=demo-models/draft", "--target=127.0.0.1:9",
                             HF_HUB_OFFLINE="1")

    def test_one_error_says_what_is_wrong(self):
        process = self.start("--model=demo/targt", "--listen=127.0.0.1:0", program="tandem-target")
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(err.count("has no model demo/targt"), 1, err)
        self.assertIn("--model=demo/targt: ", err)

    def test_a_service_alone_says_what_to_run(self):
        alone = shutil.copy(BINARIES / "tandem-target", self.home)
        done = subprocess.run([alone, "--model=owner/name@v1", "--listen=127.0.0.1:0"], capture_output=True, text=True,
                              env=self.environment(), timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("run `tandem pull owner/name@v1` with the same HF_HOME first", done.stderr)


@unittest.skipUnless(importlib.util.find_spec("huggingface_hub"), "no huggingface_hub in this Python")
class PythonTest(PullTest):
    """The same cache in the hands of huggingface_hub, of the version that is installed."""

    def python(self, text, **more):
        import sys
        done = subprocess.run([sys.executable, "-c", f"import huggingface_hub as hub\n{text}"], capture_output=True, text=True,
                              env=self.environment(HF_HUB_DISABLE_XET="1", **more), timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_python_finds_what_tandem_pulled(self):
        self.pulled()
        before = len(self.hub.requests)
        for file in (*SMALL, "model.safetensors"):
            path = self.python(f"print(hub.hf_hub_download('owner/name', {file!r}))", HF_HUB_OFFLINE="1")
            self.assertEqual(path, str(self.snapshot / file))
        self.assertEqual(self.python("print(hub.snapshot_download('owner/name'))", HF_HUB_OFFLINE="1"), str(self.snapshot))
        self.assertEqual(len(self.hub.requests), before)
        scanned = self.python("c = hub.scan_cache_dir(); print(sum('CACHEDIR' not in str(w) for w in c.warnings), [(r.repo_id, r.nb_files) for r in c.repos])")
        self.assertEqual(scanned, "0 [('owner/name', 5)]")
        # Online it downloads the rest alone.
        self.python("hub.snapshot_download('owner/name')")
        self.assertEqual(len(self.hub.downloads("model.safetensors")), 1)

    def test_tandem_finds_what_python_downloaded(self):
        self.python("hub.snapshot_download('owner/name')")
        before = len(self.hub.of("hub")) + len(self.hub.of("content"))
        self.assertEqual(self.pulled(HF_HUB_OFFLINE="1").stdout, f"{self.snapshot}\n")
        self.pulled()
        self.assertEqual(len(self.hub.of("hub")) + len(self.hub.of("content")), before + 1)

    def test_tandem_completes_what_python_began(self):
        self.python("hub.hf_hub_download('owner/name', 'tokenizer.json')")
        self.pulled()
        self.check_whole()

    def test_both_at_once(self):
        self.faults.cut["model.safetensors"] = (300_000, 1)
        other = self.start("pull", "owner/name")
        self.python("hub.hf_hub_download('owner/name', 'model.safetensors')")
        _, err = other.communicate(timeout=60)
        self.assertEqual(other.returncode, 0, err)
        self.check_whole()
        self.assertFalse(list((self.folder / "blobs").glob("*.incomplete")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
