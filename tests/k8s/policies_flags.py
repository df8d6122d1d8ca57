"""Policies of flag files."""

import math
import re

import manifests
from manifests import SERVICES, cores
from policy import flag, policy, spoil


@policy(flag("draft", "--threads", "--thread"), flag("orchestrator", "--listen", "--listen_on"),
        flag("target", "--grace=30s", "--grace 30s"), spoil("args", ["--flagfile=/etc/flags"]),
        spoil("args", ["--flagfile=/etc/tandem/flags", "--model_path=/x"]),
        spoil("args", ["--flagfile=/etc/tandem/flags"], "cpu-only-tls"))
def flags_are_the_binary_s(m):
    for service in SERVICES:
        known = manifests.known_flags(service)
        if len(known) < 10:
            yield f"{service}: --helpfull names {len(known)} flags"
        for line in "\n".join(m.flags_map(service)["data"].values()).splitlines():
            if line and not line.startswith("#") and not re.fullmatch(r"--\w+=\S+", line):
                yield f"{service}: the line {line!r} is none of a flag file"
        for name in m.flags(service):
            if name not in known:
                yield f"{service}: no flag --{name}"
        mounts = {one["name"]: one["mountPath"] for one in m.container(service)["volumeMounts"]}
        files = [f"--flagfile={mounts.get('flags')}/{name}" for name in m.flags_map(service)["data"]]
        if m.container(service).get("args") != files:
            yield f"{service}: takes other arguments than {files}"


@policy(flag("target", "--listen=0.0.0.0:50052", "--listen=0.0.0.0:50053"), flag("draft", ":9051", ":9050"),
        flag("orchestrator", "--admin_listen=0.0.0.0", "--admin_listen=127.0.0.1"))
def services_listen_where_the_pod_says(m):
    for service in SERVICES:
        ports = {port["name"]: port["containerPort"] for port in m.container(service)["ports"]}
        for name, port in (("listen", "grpc"), ("admin_listen", "admin")):
            if m.flags(service).get(name) != f"0.0.0.0:{ports.get(port)}":
                yield f"{service}: --{name}={m.flags(service).get(name)}, port {port} is {ports.get(port)}"


@policy(flag("draft", "--threads=1", "--threads=4"), flag("target", "--threads=4\n", "", "gpu"),
        spoil("resources.limits.cpu", "16"))
def as_many_threads_as_cores(m):
    for service in ("draft", "target"):
        limit, threads = cores(m.container(service)["resources"]["limits"]["cpu"]), m.flags(service).get("threads")
        if threads != str(math.ceil(limit)):
            yield f"{service}: --threads={threads} with {limit:g} cores"


@policy(flag("draft", "--pool_tokens=.*", "--pool_tokens=0"), flag("target", "--pool_tokens=.*\n", "", "gpu"))
def the_cache_is_sized_by_the_pod(m):
    for service in ("draft", "target"):
        if int(m.flags(service).get("pool_tokens", "0")) <= 0:
            yield f"{service}: its cache would be sized by the node's memory"
