"""A Kubernetes API server with its etcd, on this machine's loopback; nothing runs what it is
told."""

import json
import os
import pathlib
import secrets
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from manifests import CACHE, ROOT, run

VERSION = next(line.partition("=")[2] for line in (ROOT / "scripts/kube-tools").read_text().splitlines()
               if line.startswith("KUBERNETES_VERSION="))
FOLDER = CACHE / f"kubernetes-{VERSION}"
NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "crd-certificates.yaml", "crd-issuers.yaml")


class Answer:
    def __init__(self, status, body, warnings):
        self.status = status
        self.body = body
        self.warnings = warnings

    def message(self):
        return self.body.get("message", "")


class ApiServer:
    """Ends with `close`."""

    def __init__(self, free_ports):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-api-server.")
        self.path = pathlib.Path(self.folder.name)
        self.port, clients, peers = free_ports
        self.token = secrets.token_hex(16)
        (self.path / "tokens").write_text(f'{self.token},tests,tests,"system:masters"\n')
        done = run("openssl", "genrsa", "-out", self.path / "accounts.key", "2048")
        assert done.returncode == 0, done.stderr
        self.processes = []
        self.start("etcd", f"--data-dir={self.path}/etcd", f"--listen-client-urls=http://127.0.0.1:{clients}",
                   f"--advertise-client-urls=http://127.0.0.1:{clients}", f"--listen-peer-urls=http://127.0.0.1:{peers}",
                   f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
                   f"--initial-cluster=default=http://127.0.0.1:{peers}", "--unsafe-no-fsync")
        self.start("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{clients}", "--bind-address=127.0.0.1",
                   f"--secure-port={self.port}", f"--cert-dir={self.path}", f"--token-auth-file={self.path}/tokens",
                   "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://tandem.example",
                   f"--service-account-key-file={self.path}/accounts.key",
                   f"--service-account-signing-key-file={self.path}/accounts.key", "--authorization-mode=RBAC",
                   # No endpoints of its own, so no address that others would reach.
                   "--endpoint-reconciler-type=none", "--advertise-address=192.0.2.1",
                   # So that what is refused is refused by the namespace's level, not by this.
                   "--allow-privileged=true")
        self.kinds = {}

    def start(self, name, *words):
        with open(self.path / f"{name}.log", "wb") as log:
            self.processes.append(subprocess.Popen([FOLDER / name, *words], stdout=log, stderr=log, env={
                "HOME": str(self.path), "PATH": os.environ["PATH"]}))

    def close(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.folder.cleanup()

    def wait(self):
        deadline = time.monotonic() + 300
        while True:
            for process in self.processes:
                assert process.poll() is None, (self.path / "kube-apiserver.log").read_text()[-3000:]
            try:
                if self.ask("GET", "/readyz").status == 200:
                    return
            except OSError:
                pass
            assert time.monotonic() < deadline, (self.path / "kube-apiserver.log").read_text()[-3000:]
            time.sleep(0.5)

    def ask(self, method, path, body=None, kind="application/json"):
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}", method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"})
        context = ssl.create_default_context(cafile=self.path / "apiserver.crt")
        try:
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                status, text, headers = answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            status, text, headers = error.code, error.read(), error.headers
        try:
            body = json.loads(text)
        except ValueError:
            body = {"message": text.decode()}
        return Answer(status, body, headers.get_all("Warning") or [])

    def place(self, one):
        """The path of the collection that an object belongs to."""
        version = one["apiVersion"]
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if group not in self.kinds:
            self.kinds[group] = {kind["kind"]: kind for kind in self.ask("GET", group).body["resources"]
                                 if "/" not in kind["name"]}
        kind = self.kinds[group][one["kind"]]
        space = f"/namespaces/{one['metadata']['namespace']}" if kind["namespaced"] else ""
        return f"{group}{space}/{kind['name']}"

    def apply(self, one, dry=False):
        """As `kubectl apply --server-side --validate=strict`."""
        return self.ask("PATCH", f"{self.place(one)}/{one['metadata']['name']}?fieldManager=tests&fieldValidation=Strict"
                        + ("&dryRun=All" if dry else ""), one, "application/apply-patch+yaml")

    def define(self, definition):
        """Adds kinds to the API, and waits until it has them. What is beside the name is for an
        installer."""
        approved = {key: value for key, value in definition["metadata"].get("annotations", {}).items()
                    if key.startswith("api-approved")}
        definition["metadata"] = {"name": definition["metadata"]["name"], "annotations": approved}
        deadline = time.monotonic() + 60
        answer = self.apply(definition)
        assert answer.status == 201, answer.message()
        while "Established" not in str(self.apply(definition).body["status"].get("conditions")):
            assert time.monotonic() < deadline, definition["metadata"]["name"]
            time.sleep(0.1)
        group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
        for version in definition["spec"]["versions"]:
            while version["served"] and f"'{kind}'" not in str(self.ask("GET", f"/apis/{group}/{version['name']}").body):
                assert time.monotonic() < deadline, f"{group} {kind}"
                time.sleep(0.1)

    def create(self, one):
        return self.ask("POST", f"{self.place(one)}?fieldValidation=Strict", one)
