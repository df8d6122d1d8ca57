"""Policies of flag files."""

import functools
import json
import math
import pathlib
import tempfile

import manifests
from manifests import SERVICES, bytes_of, cores, run
from policy import flag, policy, spoil


@functools.lru_cache(maxsize=None)
def refusal(service, args, files):
    """What the binary itself says of its arguments; None: it takes them. `files`: (path, text) of
    what is mounted."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files:
            file = pathlib.Path(folder + path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        args = [arg.replace("--flagfile=", f"--flagfile={folder}") for arg in args]
        done = run(manifests.BINARIES / f"tandem-{service}", *args, "--check-flags")
    return None if (done.returncode, done.stdout) == (0, "flags OK\n") else done.stderr.replace(folder, "").strip()


@policy(flag("draft", "--max-sequences", "--max-sequence"), flag("target", "--max-sequences=.*", "--max-sequences=0"),
        flag("orchestrator", "--target=.*", ""), flag("target", "$", "a word\n"),
        spoil("container target", "args", ["--flagfile=/etc/flags"]),
        spoil("container target", "args", ["--flagfile=/etc/tandem/flags", "--grace=1s"]),
        spoil("container target", "args", ["--flagfile=/etc/tandem/flags"], "cpu-only-tls"))
def binaries_take_their_flags(m):
    """Each is started as its container says, with its flag files, and --check-flags."""
    for service in SERVICES:
        data = m.flags_map(service)["data"]
        where = next(one["mountPath"] for one in m.container(service)["volumeMounts"] if one["name"] == "flags")
        args = m.container(service).get("args", [])
        said = refusal(service, tuple(args), tuple((f"{where}/{name}", text) for name, text in data.items()))
        if said is not None:
            yield f"{service}: {said}"
        if args != [f"--flagfile={where}/{name}" for name in data]:
            yield f"{service}: takes other arguments than its flag files: {args}"


@policy(flag("target", "--listen=0.0.0.0:50052", "--listen=0.0.0.0:50053"),
        flag("orchestrator", "--admin-listen=0.0.0.0", "--admin-listen=127.0.0.1"),
        flag("orchestrator", "--http-listen=0.0.0.0:8000", "--http-listen=0.0.0.0:8001", "cpu-only-http", "http"))
def services_listen_where_the_pod_says(m):
    for service in SERVICES:
        ports = {port["name"]: port["containerPort"] for port in m.container(service)["ports"]}
        flags = [("listen", "grpc"), ("admin-listen", "admin")]
        for name, port in flags + ([("http-listen", "http")] if "http" in ports else []):
            if m.flags(service).get(name) != f"0.0.0.0:{ports.get(port)}":
                yield f"{service}: --{name}={m.flags(service).get(name)}, port {port} is {ports.get(port)}"


@policy(flag("target", "$", "--threads=2\n", "gpu"))
def as_many_threads_as_cores(m):
    """Without the flag as many as the limit, by the control group; a limit that is a part of a core
    counts as one."""
    for service in ("draft", "target"):
        limit, threads = cores(m.container(service)["resources"]["limits"]["cpu"]), m.flags(service).get("threads")
        if threads not in (None, str(math.ceil(limit))):
            yield f"{service}: --threads={threads} with {limit:g} cores"


@policy(flag("target", "--pool-tokens=.*\n", ""), flag("target", "--pool-tokens=.*", "--pool-tokens=65536"),
        flag("target", "$", "--pool-tokens=131072\n", "gpu"))
def a_target_s_cache_is_said_and_fits(m):
    """By default it is a quarter of the pod's memory, which is right for a draft; how much a target
    holds is decided. On a card it is what the card leaves: neither card nor model are known
    here."""
    said = m.flags("target").get("pool-tokens")
    if m.flags("target").get("device") == "cuda":
        if said:
            yield f"target: --pool-tokens={said} is a guess at a card's memory"
        return
    tokens = int(said or "0")
    if tokens <= 0:
        yield "target: --pool-tokens is not said"
    model = manifests.ROOT / "demo/target"
    config = json.loads((model / "config.json").read_text())
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    pool = tokens * 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * head * 4
    weights = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    limit = bytes_of(m.container("target")["resources"]["limits"]["memory"])
    if pool + weights + (256 << 20) > limit:
        yield f"target: {pool >> 20} MiB of tokens, {weights >> 20} MiB of weights and the rest in {limit >> 20} MiB"
