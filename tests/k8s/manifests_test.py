"""k8s/: every overlay is what the Kubernetes API takes, and keeps our policies; every check fails
on what it is for."""

import pathlib
import re
import shutil
import tempfile
import unittest

import manifests
import policies_flags  # noqa: F401
import policies_network  # noqa: F401
import policies_pods  # noqa: F401
import policies_rules  # noqa: F401
import policies_tls  # noqa: F401
from manifests import CACHE, COMPOSED, OVERLAYS, ROOT, build, checked, kubeconform, parsed, run, tool, yaml
from policies_services import adapter_rules
from policy import POLICIES

VERSION = re.search(r"^KUBERNETES_VERSION=(\S+)", (ROOT / "scripts/kube-tools").read_text(), re.MULTILINE)[1]
SCHEMAS = (CACHE / "kubernetes-schemas" /
           "{{.NormalizedKubernetesVersion}}-local{{.StrictSuffix}}/{{.ResourceKind}}{{.KindSuffix}}.json")
DEFINITIONS = CACHE / "kubernetes-schemas/definitions"  # of what others add to the API


def by_the_api(texts):
    """[(kind, name, status)] of all objects in `texts`. One run: it takes seconds for each kind,
    once a run."""
    answers = kubeconform(texts, "-kubernetes-version", VERSION, "-schema-location", SCHEMAS,
                          "-schema-location", DEFINITIONS / "{{.ResourceKind}}{{.KindSuffix}}.json")
    return [(one["kind"], one["name"], one["status"]) for one in answers]


class SchemaTest(unittest.TestCase):
    def test_every_overlay_fits_the_api(self):
        answers = by_the_api([build(overlay) for overlay in OVERLAYS])
        self.assertEqual([answer for answer in answers if answer[2] != "statusValid"], [])
        self.assertEqual(len(answers), sum(len(parsed(overlay).objects) for overlay in OVERLAYS))

    def test_what_the_api_does_not_take_is_noticed(self):
        deployment = yaml.safe_dump(parsed("gpu").deployment("target"))
        budget = yaml.safe_dump(parsed("gpu").get("PodDisruptionBudget", "tandem-target"))
        changes = [(deployment, "terminationGracePeriodSeconds", "terminationGraceSeconds"),
                   (deployment, "terminationGracePeriodSeconds", "terminationgraceperiodseconds"),
                   (deployment, "containerPort: 50052", 'containerPort: "grpc"'),
                   (budget, "kind: PodDisruptionBudget", "kind: PodBudget")]
        outside, keda = parsed("gpu-http-gateway-operator"), parsed("gpu-observability-keda")
        for one, line, wrong in ((outside.get("HTTPRoute", "tandem-orchestrator"), "request: 0s", "request: 0"),
                                 (outside.get("GRPCRoute", "tandem-orchestrator"), "backendRefs:", "backends:"),
                                 (outside.get("ServiceMonitor", "tandem"), "endpoints:", "ports:"),
                                 (keda.get("ScaledObject", "tandem-draft"), "minReplicaCount:", "minReplicas:")):
            changes.append((yaml.safe_dump(one), line, wrong))
        for text, line, _ in changes:
            self.assertIn(line, text)
        good = {text for text, _, _ in changes}
        answers = by_the_api([*good, *(text.replace(line, wrong) for text, line, wrong in changes)])
        self.assertEqual([answer[2] for answer in answers].count("statusValid"), len(good), answers)
        self.assertEqual(len(answers), len(good) + len(changes), answers)

    def test_every_overlay_is_tested(self):
        there = {path.name for path in (ROOT / "k8s/overlays").iterdir()}
        self.assertEqual(there, set(OVERLAYS) - set(COMPOSED))

    def test_every_image_of_ours_can_be_named_at_one_place(self):
        for overlay in ("cpu-only", "gpu", *manifests.ONE_CARD):
            stubs = yaml.safe_load((ROOT / f"k8s/overlays/{overlay}/kustomization.yaml").read_text())["images"]
            used = {container["image"].partition(":")[0] for _, _, container, _ in parsed(overlay).containers()}
            self.assertEqual({stub.get("newName", stub["name"]) for stub in stubs}, used, overlay)

    def test_models_are_named_at_one_place(self):
        with tempfile.TemporaryDirectory() as folder:
            for part in ("k8s", "observability"):
                shutil.copytree(ROOT / part, pathlib.Path(folder) / part)
            models = pathlib.Path(folder) / "k8s/components/hub/models.env"
            before = dict(line.split("=") for line in models.read_text().splitlines() if not line.startswith("#"))
            models.write_text("TARGET_MODEL=some/target@abc\nDRAFT_MODEL=some/draft\n")
            # The Job and the draft
            for overlay, drafts in (("one-card", 0), ("one-card-draft", 2)):
                text = checked(run(tool("kustomize"), "build", pathlib.Path(folder) / "k8s/overlays" / overlay))
                for name in [*before, *before.values()]:
                    self.assertNotIn(name, text, overlay)
                self.assertEqual(text.count("some/draft"), drafts)
                # The Job's two, orchestrator and target; and a draft that reads the target's
                # tokenizer.
                self.assertEqual(text.count("some/target@abc"), 4 if drafts else 5)

    def test_every_file_is_used(self):
        used = "\n".join(path.read_text() for path in (ROOT / "k8s").rglob("kustomization.yaml"))
        for path in (ROOT / "k8s").rglob("*"):
            if path.is_file() and path.name not in ("kustomization.yaml", "README.md", "cert-manager.yaml"):
                self.assertIn(path.name, used, path)


class PolicyTest(unittest.TestCase):
    def test_every_overlay_keeps_every_policy(self):
        for overlay in OVERLAYS:
            for check, _ in POLICIES:
                with self.subTest(f"{check.__name__}, {overlay}"):
                    self.assertEqual(list(check(parsed(overlay))), [])

    def test_every_policy_notices_what_it_is_for(self):
        for check, breaks in POLICIES:
            self.assertTrue(breaks, check.__name__)
            for change in breaks:
                with self.subTest(f"{check.__name__}: {change.__name__}"):
                    spoiled = parsed(change.overlay).copy()
                    change(spoiled)
                    self.assertNotEqual(spoiled.objects, parsed(change.overlay).objects, "the change changes nothing")
                    self.assertIsNotNone(next(iter(check(spoiled)), None), "nothing is noticed")


class ConfigurationTest(unittest.TestCase):
    """Prometheus' configuration and the adapter's queries, by Prometheus' own tool."""

    def promtool(self, *words):
        return run(tool("promtool"), *words)

    def check_prometheus(self, m):
        with tempfile.TemporaryDirectory() as folder:
            sources = next(volume for volume in m.get("Deployment", "tandem-prometheus")["spec"]["template"]["spec"]["volumes"]
                           if volume["name"] == "config")["projected"]["sources"]
            for source in sources:
                for name, text in m.get("ConfigMap", source["configMap"]["name"])["data"].items():
                    (pathlib.Path(folder) / name).write_text(text)
            return self.promtool("check", "config", f"{folder}/prometheus.yml")

    def test_prometheus_takes_what_its_pod_mounts(self):
        done = self.check_prometheus(parsed("observability"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall(r"SUCCESS: \d+ rules? found", done.stdout)), 2, done.stdout)

    def test_a_rule_file_that_is_not_mounted_is_noticed(self):
        spoiled = parsed("observability").copy()
        spoiled.objects = [one for one in spoiled.objects if not one["metadata"]["name"].startswith("tandem-rules")]
        with self.assertRaises(TypeError):
            self.check_prometheus(spoiled)

    def test_the_cluster_s_alerts_fire_on_what_they_are_for(self):
        done = self.promtool("test", "rules", ROOT / "tests/k8s/alerts.yml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        alerts = re.findall(r"- alert: (\w+)", (ROOT / "k8s/components/observability/rules-kubernetes.yml").read_text())
        tested = (ROOT / "tests/k8s/alerts.yml").read_text()
        for alert in alerts:
            self.assertIn(f"alertname: {alert}", tested)

    def test_the_adapter_s_queries_are_promql(self):
        def check(query):
            with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                file.write(f"groups: [{{name: a, rules: [{{record: a, expr: {query!r}}}]}}]")
                file.flush()
                return self.promtool("check", "rules", file.name).returncode
        for rule in adapter_rules(parsed("observability")):
            self.assertEqual(check(rule["metricsQuery"]), 0, rule)
        self.assertNotEqual(check("sum(rate(tandem:target_busy_seconds_total))"), 0)

    def test_jobs_are_those_that_the_rules_name(self):
        ours = re.findall(r"job_name: (\S+)", (ROOT / "k8s/components/observability/prometheus.yml").read_text())
        theirs = re.findall(r"job_name: (\S+)", (ROOT / "observability/prometheus/prometheus.yml").read_text())
        self.assertEqual(sorted(ours), sorted(theirs))


if __name__ == "__main__":
    for needed in ("kustomize", "kubeconform", "promtool"):
        tool(needed)
    if not DEFINITIONS.is_dir():
        raise SystemExit(f"no {DEFINITIONS}; scripts/kube-tools makes it")
    for name in manifests.SERVICES:
        if not (manifests.BINARIES / f"tandem-{name}").exists():
            raise SystemExit(f"no tandem-{name} in {manifests.BINARIES}; TANDEM_BINARY_DIR says where they are")
    unittest.main(verbosity=2)
