"""Dockerfile and compose.yaml agree with each other, with k8s/ and with the binaries. No container
is started."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import container_files
import yaml
from container_files import ROOT, SERVICES

BINARIES = pathlib.Path(os.environ.get("TANDEM_BINARY_DIR", ROOT / "build/release/bin"))

# (file, what stands there, what a mistake would put there): each must be noticed.
MISTAKES = [
    ("CMakeLists.txt", "VERSION 0.1.0", "VERSION 0.2.0"),
    ("CMakeLists.txt", "add_subdirectory(model)", "add_subdirectory(model)\nadd_subdirectory(another)"),
    ("scripts/images", "tandem-demo-models)", ")"),
    ("scripts/images", "IMAGES=(tandem-draft ", "IMAGES=(tandem-drafts "),
    ("Dockerfile", "ARG VERSION=0.1.0", "ARG VERSION=0.1"),
    ("Dockerfile", "USER 65532:65532\nWORKDIR", "USER root\nWORKDIR"),
    ("Dockerfile", "/models/target\nUSER 65532:65532", "/models/target"),
    ("Dockerfile", "-DTANDEM_TORCH_DIR=/opt/libtorch/torch", "-DTANDEM_TORCH_DIR=/opt/torch"),
    ("Dockerfile", "COPY --from=libtorch /out/libtorch/ /opt/libtorch/\n", ""),
    ("Dockerfile", "FROM runtime AS tandem-target\n", "FROM runtime AS tandem-target\nCOPY --from=libtorch /opt/libtorch /opt\n"),
    ("Dockerfile", "-r /tmp/libtorch-cuda.txt", "-r /tmp/lib.sh"),
    ("scripts/images", "CUDA_IMAGES=(tandem-target-cuda ", "CUDA_IMAGES=("),
    ("k8s/overlays/gpu/kustomization.yaml", "newName: tandem-target-cuda", "newName: tandem-target-gpu"),
    ("k8s/overlays/one-card-draft/kustomization.yaml", "newName: tandem-draft-cuda", "newName: tandem-draft-gpu"),
    (".dockerignore", "!scripts/libtorch-cuda.txt\n", ""),
    ("Dockerfile", "STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL"),
    ("Dockerfile", "EXPOSE 50052 9052", "EXPOSE 50052"),
    ("Dockerfile", 'ENTRYPOINT ["/usr/local/bin/tandem-draft"]', "ENTRYPOINT /usr/local/bin/tandem-draft"),
    ("Dockerfile", "FROM ${BASE} AS runtime", "FROM debian:trixie AS runtime"),
    ("Dockerfile", "ARG BASE=debian:bookworm-slim", "ARG BASE=registry.example.com/debian:bookworm-slim"),
    ("Dockerfile", "COPY client client\n", ""),
    ("Dockerfile", "COPY client client\n", "COPY clients client\n"),
    (".dockerignore", "!client\n", ""),
    (".dockerignore", "*\n!CMakeLists.txt", "!CMakeLists.txt"),
    ("k8s/base/draft/deployment.yaml", "image: tandem-draft:0.1.0", "image: tandem-draft:latest"),
    ("k8s/overlays/cpu-only/draft.yaml", "image: tandem-demo-models:", "image: tandem-models:"),
    ("k8s/base/draft/flags", "--grace=10s", "--grace=15s"),
    ("k8s/base/orchestrator/flags", "--drain-delay=10s", "--drain-delay=0s"),
    ("k8s/overlays/cpu-only/target.flags", "--listen=0.0.0.0:50052", "--listen=0.0.0.0:50062"),
    ("k8s/overlays/cpu-only/target.flags", "--admin-listen=0.0.0.0:9052", "--admin-listen=0.0.0.0:9062"),
    ("k8s/overlays/cpu-only/target.flags", "--model=/model", "--model=/models"),
    ("k8s/base/orchestrator/flags", "--draft=tandem-draft:", "--draft=tandem-drafts:"),
    ("k8s/components/observability/prometheus.yml", "names: [tandem-draft-admin]", "names: [tandem-draft-metrics]"),
    ("k8s/components/observability/prometheus.yml", "- rules.yml", "- rules.yml\n  - more.yml"),
    ("k8s/components/observability/grafana-datasources.yml", "http://tandem-prometheus:", "http://prometheus:"),
    ("compose.yaml", "image: tandem-target:0.1.0", "image: tandem-target:0.1.0-cuda"),
    ("compose.yaml", "target: tandem-target}", "target: tandem-draft}"),
    ("compose.yaml", "read_only: true", "read_only: false"),
    ("compose.yaml", "cap_drop: [ALL]", "cap_drop: [NET_RAW]"),
    ("compose.yaml", '["no-new-privileges:true"]', "[]"),
    ("compose.yaml", 'user: "65532:65532"', 'user: "0:0"'),
    ("compose.yaml", '"127.0.0.1:50050:50050"', '"50050:50050"'),
    ("compose.yaml", '"127.0.0.1:50050:50050"', '"127.0.0.1:50050:50051"'),
    ("compose.yaml", "stop_grace_period: 40s", "stop_grace_period: 10s"),
    ("compose.yaml", "mem_limit: 1g", "mem_limit: 512m"),
    ("compose.yaml", "cpus: 2", "cpus: 1"),
    ("compose.yaml", "./demo/draft:/model:ro", "./demo/drafts:/model:ro"),
    ("compose.yaml", "./demo/draft:/model:ro", "./demo/draft:/model"),
    ("compose.yaml", "/dev/tcp/127.0.0.1/9050 ", "/dev/tcp/127.0.0.1/9051 "),
    ("compose.yaml", "[tandem-target-admin]", "[tandem-draft-admin]"),
    ("compose.yaml", "http://tandem-jaeger:4317", "http://jaeger:4317"),
]


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)


class ContainerFilesTest(unittest.TestCase):
    maxDiff = None

    def test_all_agree(self):
        self.assertEqual(container_files.complaints(container_files.read()), [])

    def test_mistakes_are_noticed(self):
        files = container_files.read()
        for path, old, new in MISTAKES:
            with self.subTest(path=path, new=new):
                self.assertIn(old, files[path])
                changed = {**files, path: files[path].replace(old, new)}
                self.assertNotEqual(container_files.complaints(changed), [])

    def test_binaries_take_their_flags(self):
        files = container_files.read()
        services = yaml.safe_load(files["compose.yaml"])["services"]
        for name in SERVICES:
            with self.subTest(name), tempfile.NamedTemporaryFile("w", suffix=".flags") as file:
                file.write(files[container_files.mounts(services[name])["/etc/tandem/flags"]])
                file.flush()
                words = [word.replace("/etc/tandem/flags", file.name) for word in services[name]["command"]]
                done = run(BINARIES / name, *words, "--check-flags")
                self.assertEqual((done.returncode, done.stdout), (0, "flags OK\n"), done.stderr)
                file.write("--another=1\n")
                file.flush()
                done = run(BINARIES / name, *words, "--check-flags")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("another", done.stderr)

    def test_compose_reads_it(self):
        program = [shutil.which("docker-compose") or "docker"] + ([] if shutil.which("docker-compose") else ["compose"])
        if not shutil.which(program[0]) or run(*program, "version").returncode != 0:
            self.skipTest("no docker-compose here (Debian's package docker-compose is enough)")
        done = run(*program, "-f", ROOT / "compose.yaml", "--profile", "client", "config")
        self.assertEqual(done.returncode, 0, done.stderr)
        services = yaml.safe_load(done.stdout)["services"]
        self.assertTrue({*SERVICES, "tandem"} <= services.keys())
        broken = (ROOT / "compose.yaml").read_text().replace("stop_grace_period: 40s", "stop_grace: 40s")
        done = run(*program, "-f", "-", "config", input=broken)
        self.assertNotEqual(done.returncode, 0, "an unknown key was taken")


if __name__ == "__main__":
    unittest.main()
