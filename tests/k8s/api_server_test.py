"""Every overlay, applied to a real API server: it takes all objects without a warning, and the pods
that the Deployments would make; what is not `restricted` it refuses. No controller and no kubelet
runs: nothing is started."""

import copy
import sys
import unittest

import api_server
import pods
from manifests import CACHE, OVERLAYS, ROOT, parsed, tool, yaml


def in_space(one, space):
    """A copy for another namespace, so that overlays do not meet."""
    one = copy.deepcopy(one)
    if one["kind"] == "Namespace":
        one["metadata"]["name"] = space
    else:
        one["metadata"]["namespace"] = space
    return one


def pod_of(deployment, space):
    template = copy.deepcopy(deployment["spec"]["template"])
    return {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
            "metadata": {"name": deployment["metadata"]["name"], "namespace": space, "labels": template["metadata"]["labels"]}}


def privileged(pod):
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}


def as_root(pod):
    pod["spec"]["securityContext"] = {"runAsUser": 0}


def on_the_node_s_network(pod):
    pod["spec"]["hostNetwork"] = True


def with_the_node_s_files(pod):
    pod["spec"]["volumes"].append({"name": "node", "hostPath": {"path": "/"}})


def with_capabilities(pod):
    pod["spec"]["containers"][0]["securityContext"]["capabilities"] = {"add": ["NET_ADMIN"]}


class ApiServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = api_server.ApiServer(pods.free_ports(range(3)).values())
        cls.addClassCleanup(cls.server.close)
        cls.server.wait()
        for definition in (CACHE / "kubernetes-schemas/definitions").glob("*.yaml"):
            cls.server.define(yaml.safe_load(definition.read_text()))
        for overlay in OVERLAYS:
            for one in parsed(overlay).of("Namespace"):
                answer = cls.server.apply(in_space(one, overlay))
                assert answer.status == 201 and not answer.warnings, (answer.message(), answer.warnings)
            # A controller would make it: the account of pods that name none.
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": overlay}}
            assert cls.server.create(account).status == 201

    def test_every_object_of_every_overlay_is_taken_without_a_warning(self):
        for overlay in OVERLAYS:
            for one in parsed(overlay).objects:
                with self.subTest(f"{overlay}: {one['kind']} {one['metadata']['name']}"):
                    answer = self.server.apply(in_space(one, overlay))
                    self.assertIn(answer.status, (200, 201), answer.message())
                    self.assertEqual(answer.warnings, [])

    def test_what_is_applied_again_is_not_changed(self):
        for overlay in OVERLAYS:
            for one in parsed(overlay).objects:
                with self.subTest(f"{overlay}: {one['kind']} {one['metadata']['name']}"):
                    first, again = (self.server.apply(in_space(one, overlay)).body["metadata"] for _ in range(2))
                    self.assertEqual(again["resourceVersion"], first["resourceVersion"])

    def test_pods_of_every_deployment_are_let_in(self):
        for overlay in OVERLAYS:
            for account in parsed(overlay).of("ServiceAccount"):
                self.server.apply(in_space(account, overlay))
            for deployment in parsed(overlay).of("Deployment"):
                with self.subTest(f"{overlay}: {deployment['metadata']['name']}"):
                    answer = self.server.create(pod_of(deployment, overlay))
                    self.assertEqual(answer.status, 201, answer.message())
                    self.assertEqual(answer.warnings, [])
                    # No token came in by the way that the cluster has for it.
                    self.assertNotIn("serviceAccountToken", str(answer.body["spec"]["volumes"]))

    def test_pods_that_want_more_are_refused(self):
        for account in parsed("gpu").of("ServiceAccount"):
            self.server.apply(in_space(account, "gpu"))
        for change in (privileged, as_root, on_the_node_s_network, with_the_node_s_files, with_capabilities):
            with self.subTest(change.__name__):
                pod = pod_of(parsed("gpu").deployment("target"), "gpu")
                pod["metadata"]["name"] += "-" + change.__name__.replace("_", "-")
                change(pod)
                answer = self.server.create(pod)
                self.assertEqual(answer.status, 403, answer.message())
                self.assertIn('violates PodSecurity "restricted:', answer.message())

    def test_objects_that_are_wrong_are_refused(self):
        def deployment(change):
            one = in_space(parsed("gpu").deployment("draft"), "gpu")
            change(one["spec"])
            return one
        scaler = in_space(parsed("gpu").get("HorizontalPodAutoscaler", "tandem-draft"), "gpu")
        scaler["spec"]["minReplicas"] = 9
        network = in_space(parsed("gpu").get("NetworkPolicy", "tandem-draft"), "gpu")
        network["spec"]["ingress"][0]["ports"][0]["port"] = 70000
        wrong = {
            "`selector` does not match template": deployment(lambda spec: spec["selector"].update(matchLabels={"app": "x"})),
            "terminationSeconds: field not declared": deployment(
                lambda spec: spec["template"]["spec"].update(terminationSeconds=1)),
            r"volumeMounts\[0\].name: Not found": deployment(lambda spec: spec["template"]["spec"].pop("volumes")),
            "quantities must match": deployment(
                lambda spec: spec["template"]["spec"]["containers"][0]["resources"]["limits"].update(memory="4 GB")),
            "maxReplicas: Invalid value": scaler,
            "must be between 1 and 65535": network,
        }
        for why, one in wrong.items():
            with self.subTest(why):
                answer = self.server.apply(one, dry=True)
                self.assertGreaterEqual(answer.status, 400)
                self.assertRegex(answer.message(), why)

    def test_cert_manager_s_api_takes_what_it_is_asked_for(self):
        for name in ("certificates", "issuers"):
            self.server.define(yaml.safe_load((api_server.FOLDER / f"crd-{name}.yaml").read_text()))
        asked = list(yaml.safe_load_all((ROOT / "k8s/components/tls/cert-manager.yaml").read_text()))
        for one in asked:
            with self.subTest(one["metadata"]["name"]):
                answer = self.server.apply(in_space(one, "gpu-tls-observability"))
                self.assertEqual(answer.status, 201, answer.message())
                self.assertEqual(answer.warnings, [])
        for field, value in (("usages", ["to serve"]), ("dnsName", "x"), ("secretName", None), ("duration", 90)):
            with self.subTest(field):
                one = in_space(asked[-1], "gpu-tls-observability")
                one["metadata"]["name"] = "wrong"
                one["spec"][field] = value
                self.assertGreaterEqual(self.server.apply(one).status, 400)


if __name__ == "__main__":
    tool("kustomize")
    for needed in api_server.NEEDED:
        if not (api_server.FOLDER / needed).exists():
            print(f"SKIPPED: the whole test: no {needed} in {api_server.FOLDER}; scripts/kube-tools --api-server gets it")
            sys.exit(0)
    unittest.main(verbosity=2)
