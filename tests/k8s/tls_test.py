"""The component tls, with the real services and client: certificates as cert-manager.yaml orders
them, in files as a Secret has them, under the paths that the Deployments mount; names of Services
instead of addresses."""

import json
import pathlib
import socket
import ssl
import subprocess
import tempfile
import unittest

import pods
from manifests import BINARIES, SERVICES, certificates, parsed, run, tool

OVERLAY = "cpu-only-tls"
TOKENS = "a-token-of-thirty-two-characters\nanother-one-that-comes-after-it..\n"
SETTINGS = b"\4"  # HTTP/2's first frame
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + SETTINGS + bytes(5)
USAGES = {"digital signature": "digitalSignature", "server auth": "serverAuth", "client auth": "clientAuth"}


def openssl(*words, **options):
    done = run("openssl", *words, **options)
    assert done.returncode == 0, done.stderr


class Authority:
    """Makes Secrets of Certificates, as cert-manager would."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
                "-subj", "/CN=tandem-ca", "-keyout", self.folder / "ca.key", "-out", self.folder / "ca.crt")

    def issue(self, spec):
        """Its folder, with tls.crt, tls.key, ca.crt."""
        folder = self.folder / spec["secretName"]
        folder.mkdir()
        usages = [USAGES[usage] for usage in spec["usages"]]
        lines = ["basicConstraints=CA:FALSE",
                 "keyUsage=" + ",".join(usage for usage in usages if not usage.endswith("Auth")),
                 "extendedKeyUsage=" + ",".join(usage for usage in usages if usage.endswith("Auth"))]
        if "dnsNames" in spec:
            lines.append("subjectAltName=" + ",".join(f"DNS:{name}" for name in spec["dnsNames"]))
        (folder / "extensions").write_text("\n".join(lines))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-subj", f"/CN={spec.get('commonName', '')}", "-keyout", folder / "tls.key", "-out", folder / "request")
        openssl("x509", "-req", "-in", folder / "request", "-CA", self.folder / "ca.crt", "-CAkey", self.folder / "ca.key",
                "-CAcreateserial", "-days", "30", "-extfile", folder / "extensions", "-out", folder / "tls.crt")
        (folder / "ca.crt").write_bytes((self.folder / "ca.crt").read_bytes())
        return folder


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tandem-k8s-tls.")
        cls.addClassCleanup(folder.cleanup)
        authority = Authority(folder.name)
        cls.secrets = {one["spec"]["secretName"]: authority.issue(one["spec"])
                       for one in certificates() if not one["spec"].get("isCA")}
        cls.secrets["tandem-tokens"] = pathlib.Path(folder.name) / "tandem-tokens"
        cls.secrets["tandem-tokens"].mkdir()
        (cls.secrets["tandem-tokens"] / "tokens").write_text(TOKENS)
        mounts = {}
        for service in SERVICES:
            volumes = {one["name"]: one.get("secret", {}).get("secretName") for one in parsed(OVERLAY).pod(service)["volumes"]}
            mounts[service] = {one["mountPath"]: cls.secrets[volumes[one["name"]]]
                               for one in parsed(OVERLAY).container(service)["volumeMounts"] if volumes[one["name"]]}
        cls.pods = pods.Pods(OVERLAY, mounts)
        cls.addClassCleanup(cls.pods.close)
        for service in SERVICES:
            cls.pods.start(service)
        cls.pods.wait(lambda: cls.pods.probe("orchestrator", "readinessProbe"))
        cls.pods.wait(lambda: cls.pods.probe("draft", "readinessProbe"))

    def generate(self, *words):
        return subprocess.run(
            [BINARIES / "tandem", "generate", f"--orchestrator=tandem-orchestrator:{self.pods.ports[50050]}",
             "--prompt=Once upon a time", "--max-tokens=16", "--timeout=30s", *words],
            capture_output=True, text=True, check=False, env=self.pods.environment(), timeout=60)

    def greets(self, service, secret=None):
        """Whether a draft or target speaks HTTP/2 with whoever has the certificate of `secret`;
        None: with anybody."""
        context = ssl.create_default_context(cafile=self.secrets[f"tandem-{service}-tls"] / "ca.crt")
        context.set_alpn_protocols(["h2"])
        if secret:
            context.load_cert_chain(self.secrets[secret] / "tls.crt", self.secrets[secret] / "tls.key")
        port = self.pods.ports[{"draft": 50051, "target": 50052}[service]]
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
                with context.wrap_socket(plain, server_hostname=f"tandem-{service}") as encrypted:
                    encrypted.sendall(PREFACE)
                    return encrypted.recv(9)[3:4] == SETTINGS
        except (ssl.SSLError, ConnectionError):
            return False

    def test_1_a_client_with_the_authority_and_a_token_gets_text_that_was_drafted(self):
        ca = f"--tls-ca={self.secrets['tandem-orchestrator-tls'] / 'ca.crt'}"
        words = [ca, f"--token-file={self.secrets['tandem-tokens'] / 'tokens'}", "--temperature=0", "--format=json"]

        def is_drafted():  # sooner or later: an orchestrator is ready with its target alone
            done = self.generate(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout.splitlines()[-1])["speculation"]["accepted_tokens"] > 0
        self.pods.wait(is_drafted)

    def test_2_without_token_or_encryption_it_is_refused(self):
        ca = f"--tls-ca={self.secrets['tandem-orchestrator-tls'] / 'ca.crt'}"
        self.assertRegex(self.generate(ca).stderr, r"UNAUTHENTICATED|token")
        self.assertNotEqual(self.generate().returncode, 0)

    def test_2_only_the_orchestrator_s_certificate_calls_drafts_and_targets(self):
        for service in ("draft", "target"):
            with self.subTest(service):
                self.assertTrue(self.greets(service, "tandem-orchestrator-peer-tls"))
                for other in ("tandem-draft-tls", "tandem-target-tls", "tandem-orchestrator-tls", None):
                    self.assertFalse(self.greets(service, other), other)

    def test_2_every_port_says_what_it_speaks(self):
        for service in SERVICES:
            wanted = "tls" if service == "orchestrator" else "mutual tls"
            self.assertRegex(self.pods.log(service), rf'encryption="?{wanted}\b', service)


if __name__ == "__main__":
    for needed in ("kustomize", "grpcurl"):
        tool(needed)
    unittest.main(verbosity=2)
