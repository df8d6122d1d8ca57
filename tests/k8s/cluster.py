"""A cluster without nodes: an API server, the controllers that our objects are for, and a pretended
kubelet, which runs nothing, but answers for each pod as one would: it gets an address, is ready
when told so, and takes a while to end."""

import itertools
import json
import threading
import time

import api_server

CONTROLLERS = ("deployment-controller", "replicaset-controller", "endpointslice-controller", "disruption-controller",
               "serviceaccount-controller", "horizontal-pod-autoscaler-controller", "garbage-collector-controller")
NODE = "node"
READY = ("PodScheduled", "Initialized", "ContainersReady", "Ready")


class Cluster:
    """Ends with `close`. Pods take `drain` seconds to end."""

    def __init__(self, free_ports, drain=0.5):
        self.server = api_server.ApiServer(free_ports)
        self.drain = drain
        self.unready = set()  # names of pods whose probe fails
        self.pods = {}        # {name: the pod}, of all namespaces, as last seen
        self.watchers = []    # called with `pods` after each look
        self.ending = {}
        self.addresses = (f"10.244.{high}.{low}" for high, low in itertools.product(range(256), range(1, 255)))
        self.over = threading.Event()
        self.failure = None

    def start(self):
        self.server.wait()
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": f"https://127.0.0.1:{self.server.port}",
                                                      "certificate-authority": str(self.server.path / "apiserver.crt")}}],
            "users": [{"name": "tests", "user": {"token": self.server.token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "tests"}}]}
        (self.server.path / "config").write_text(json.dumps(config))
        self.server.start("kube-controller-manager", f"--kubeconfig={self.server.path}/config", "--leader-elect=false",
                          "--secure-port=0", f"--controllers={','.join(CONTROLLERS)}", f"--cert-dir={self.server.path}/controllers",
                          "--horizontal-pod-autoscaler-sync-period=1s")
        self.ok(self.server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}))
        self.kubelet = threading.Thread(target=self.run)
        self.kubelet.start()

    def close(self):
        self.over.set()
        self.kubelet.join()
        self.server.close()

    def ok(self, answer):
        assert answer.status < 300, answer.message()
        return answer.body

    def run(self):
        try:
            while not self.over.is_set():
                self.look()
                self.over.wait(0.05)
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def look(self):
        pods = {pod["metadata"]["name"]: pod for pod in self.ok(self.server.ask("GET", "/api/v1/pods"))["items"]}
        for name, pod in pods.items():
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}"
            if "deletionTimestamp" in pod["metadata"]:
                if time.monotonic() - self.ending.setdefault(name, time.monotonic()) > self.drain:
                    self.server.ask("DELETE", path, {"gracePeriodSeconds": 0})
            elif "nodeName" not in pod["spec"]:
                self.server.ask("POST", f"{path}/binding", {
                    "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}})
            elif is_ready(pod) != (name not in self.unready) or "podIP" not in pod["status"]:
                address = pod["status"].get("podIP") or next(self.addresses)
                good = "False" if name in self.unready else "True"
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                self.server.ask("PATCH", f"{path}/status", {"status": {
                    "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                    "conditions": [{"type": kind, "status": good if "Ready" in kind else "True", "lastTransitionTime": now}
                                   for kind in READY]}}, "application/merge-patch+json")
        self.pods = pods
        for watcher in self.watchers:
            watcher(pods)

    def wait(self, condition):
        deadline = time.monotonic() + 120
        while not condition():
            if self.failure:
                raise self.failure
            assert time.monotonic() < deadline, self.summary()
            time.sleep(0.05)

    def summary(self):
        return {name: (is_ready(pod), "deletionTimestamp" in pod["metadata"]) for name, pod in self.pods.items()}


def is_ready(pod):
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))


def is_leaving(pod):
    return "deletionTimestamp" in pod["metadata"]
