"""What Kubernetes' own controllers make of the overlays: pods, names, budgets, roll-outs. See
cluster.py."""

import copy
import sys
import time
import unittest

import api_server
import cluster
import pods
from cluster import is_leaving, is_ready
from manifests import NAME, SERVICES, parsed, tool

MIN_READY = 6  # in place of 40 s, which are for name servers


def of(service, found):
    return [pod for pod in found.values() if pod["metadata"]["labels"].get(NAME) == f"tandem-{service}"]


def names_of(found):
    return frozenset(pod["metadata"]["name"] for pod in found)


class ClusterTest(unittest.TestCase):
    """One namespace, into which overlays are applied one after the other."""

    def setUp(self):
        self.cluster = cluster.Cluster(pods.free_ports(range(3)).values())
        self.addCleanup(self.cluster.close)
        self.cluster.start()

    def apply(self, overlay, change=None):
        objects = copy.deepcopy(parsed(overlay).objects)
        for one in sorted(objects, key=lambda one: one["kind"] != "Namespace"):
            if one["kind"] == "Deployment":
                one["spec"]["minReadySeconds"] = MIN_READY
                if change:
                    change(one)
            self.cluster.ok(self.cluster.server.apply(one))
        return objects

    def get(self, kind, name):
        return self.cluster.ok(self.cluster.server.ask("GET", f"/apis/apps/v1/namespaces/tandem/{kind}/{name}"))

    def available(self, name):
        status, spec = (self.get("deployments", name)[part] for part in ("status", "spec"))
        return (status.get("observedGeneration") == self.get("deployments", name)["metadata"]["generation"] and
                status.get("availableReplicas") == status.get("updatedReplicas") == status.get("replicas") == spec["replicas"])

    def ready_addresses(self, service):
        """Those that DNS has for a Service."""
        slices = self.cluster.ok(self.cluster.server.ask(
            "GET", f"/apis/discovery.k8s.io/v1/namespaces/tandem/endpointslices?labelSelector=kubernetes.io/service-name={service}"))
        return {address for one in slices["items"] for endpoint in one["endpoints"] or [] for address in endpoint["addresses"]
                if endpoint["conditions"]["ready"]}

    def test_everything_becomes_available(self):
        objects = self.apply("observability")
        for one in objects:
            if one["kind"] == "Deployment":
                self.cluster.wait(lambda one=one: self.available(one["metadata"]["name"]))

    def test_two_of_each_and_how_they_come_and_go(self):
        self.apply("gpu-tls-observability")
        # The autoscalers have no metrics here, and keep to minReplicas.
        for service in SERVICES:
            self.cluster.wait(lambda service=service: len(of(service, self.cluster.pods)) == 2)
            self.cluster.wait(lambda service=service: self.available(f"tandem-{service}"))
        with self.subTest("a name is the pods that are ready"):
            self.check_names()
        with self.subTest("a drained node takes one pod at a time"):
            self.check_budgets()
        with self.subTest("a roll-out leaves somebody all the time"):
            self.check_roll_out()

    def check_names(self):
        both = {pod["status"]["podIP"] for pod in of("target", self.cluster.pods)}
        self.cluster.wait(lambda: self.ready_addresses("tandem-target") == both)
        bad = of("target", self.cluster.pods)[0]
        self.cluster.unready.add(bad["metadata"]["name"])
        self.cluster.wait(lambda: self.ready_addresses("tandem-target") == both - {bad["status"]["podIP"]})
        self.assertEqual(self.ready_addresses("tandem-target-admin"), both)
        self.cluster.unready.clear()
        self.cluster.wait(lambda: self.ready_addresses("tandem-target") == both)

    def evict(self, pod):
        return self.cluster.server.ask("POST", f"/api/v1/namespaces/tandem/pods/{pod['metadata']['name']}/eviction", {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"], "namespace": "tandem"}})

    def check_budgets(self):
        for service in SERVICES:
            self.cluster.wait(lambda service=service: self.available(f"tandem-{service}"))
            budget = f"/apis/policy/v1/namespaces/tandem/poddisruptionbudgets/tandem-{service}"
            self.cluster.wait(lambda budget=budget: self.cluster.server.ask("GET", budget).body["status"].get(
                "disruptionsAllowed") == 1)
            one, other = of(service, self.cluster.pods)
            self.assertEqual(self.evict(one).status, 201, service)
            self.assertEqual(self.evict(other).status, 429, service)
            if service == "draft":  # and without the budget:
                self.cluster.ok(self.cluster.server.ask("DELETE", budget))
                self.assertEqual(self.evict(other).status, 201)

    def check_roll_out(self):
        for service in SERVICES:
            self.cluster.wait(lambda service=service: self.available(f"tandem-{service}"))
        seen = {service: [] for service in SERVICES}

        def watch(found):
            for service in SERVICES:
                serving = [pod for pod in of(service, found) if not is_leaving(pod)]
                seen[service].append((time.monotonic(), names_of(serving), names_of(filter(is_ready, serving))))
        self.cluster.watchers.append(watch)
        before = {service: names_of(of(service, self.cluster.pods)) for service in SERVICES}

        def change(deployment):
            deployment["spec"]["template"]["metadata"].setdefault("annotations", {})["changed"] = "yes"
        self.apply("gpu-tls-observability", change)
        for service in SERVICES:
            self.cluster.wait(lambda service=service: self.available(f"tandem-{service}") and not (
                before[service] & names_of(of(service, self.cluster.pods))))
        self.cluster.watchers.clear()
        for service in SERVICES:
            with self.subTest(service):
                surge = 0 if service == "target" else 1
                self.assertGreaterEqual(min(len(ready) for _, _, ready in seen[service]), 1 if service == "target" else 2)
                self.assertLessEqual(max(len(serving) for _, serving, _ in seen[service]), 2 + surge)
                # The last old one goes when a new one's address has had the time to be known.
                new = next(at for at, _, ready in seen[service] if ready - before[service])
                gone = next(at for at, serving, _ in seen[service] if not serving & before[service])
                self.assertGreaterEqual(gone - new, MIN_READY - 1)  # conditions have whole seconds


if __name__ == "__main__":
    tool("kustomize")
    for needed in api_server.NEEDED:
        if not (api_server.FOLDER / needed).exists():
            print(f"SKIPPED: the whole test: no {needed} in {api_server.FOLDER}; scripts/kube-tools --api-server gets it")
            sys.exit(0)
    unittest.main(verbosity=2)
