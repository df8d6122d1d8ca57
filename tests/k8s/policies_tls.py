"""Policies of encryption: with the component tls all of it, without it nothing that says
otherwise."""

from manifests import SERVICES, certificates
from policy import flag, policy, spoil

SERVER = {"tls-certificate": "tls.crt", "tls-key": "tls.key"}
MUTUAL = {**SERVER, "tls-client-ca": "ca.crt"}
CALLER = {"peer-tls-certificate": "tls.crt", "peer-tls-key": "tls.key", "peer-tls-ca": "ca.crt"}
FILES = {"draft": MUTUAL, "target": MUTUAL, "orchestrator": {**SERVER, **CALLER, "token-file": "tokens"}}
TOKENS = "tandem-tokens"
TLS = "gpu-tls-observability"


def secret_at(m, service, path):
    """(name of the Secret, key) that a path in the container is; None: no Secret."""
    volumes = {one["name"]: one for one in m.pod(service)["volumes"]}
    for mount in m.container(service)["volumeMounts"]:
        folder, _, key = path.rpartition("/")
        if mount["mountPath"] == folder and mount.get("readOnly") and "subPath" not in mount:
            return volumes[mount["name"]].get("secret", {}).get("secretName"), key
    return None


def certificate_of(secret):
    found = [one["spec"] for one in certificates() if one["spec"]["secretName"] == secret]
    return found[0] if found else {}


@policy(flag("target", "--tls-client-ca=.*", "", TLS, "tls"), flag("draft", "tls.key", "tls.crt", TLS, "tls"),
        flag("orchestrator", "peer-tls-certificate=/etc/tandem-peer-tls", "peer-tls-certificate=/etc/tandem-tls", TLS, "tls"),
        flag("orchestrator", "--draft=.*", "--draft=other:50051", TLS), flag("draft", "$", "--tls-key=/k\n", "gpu"),
        spoil("pod target", "volumes.0.secret.secretName", "tandem-draft-tls", TLS),
        spoil("container target", "volumeMounts.0.subPath", "tls.crt", TLS),
        spoil("container target", "volumeMounts.0.readOnly", False, TLS))
def encryption_is_whole(m):
    """Mutual between the services, with tokens in front; each certificate is one that is ordered,
    for what it is used."""
    for service in SERVICES:
        flags = {name: value for name, value in m.flags(service).items() if "tls-" in name or name == "token-file"}
        if "tls" not in m.overlay:
            if flags:
                yield f"{service}: {sorted(flags)} without the component"
            continue
        if set(flags) != set(FILES[service]):
            yield f"{service}: flags {sorted(flags)}"
        for name, value in flags.items():
            secret, key = secret_at(m, service, value) or (None, None)
            if secret is None or key != FILES[service].get(name):
                yield f"{service}: --{name}={value} is {secret}, {key}"
                continue
            if name == "token-file":
                wanted, usage = TOKENS, None
            elif name.startswith("peer-"):
                wanted, usage = "tandem-orchestrator-peer-tls", "client auth"
            else:
                wanted, usage = f"tandem-{service}-tls", "server auth"
            if secret != wanted:
                yield f"{service}: --{name} is of {secret}, not of {wanted}"
            elif usage and [one for one in certificate_of(secret).get("usages", []) if "auth" in one] != [usage]:
                yield f"{service}: {secret} is not for {usage} alone"
    if "tls" in m.overlay:
        for name in ("draft", "target"):
            host = m.flags("orchestrator")[name].partition(":")[0]
            if host not in certificate_of(f"tandem-{name}-tls").get("dnsNames", []):
                yield f"{name}: its certificate is not for {host}"


@policy(spoil("Service tandem-orchestrator", "spec.ports.0.appProtocol", "kubernetes.io/h2c", TLS),
        spoil("Service tandem-draft", "spec.ports.0.appProtocol", None, "gpu"))
def services_say_what_their_ports_speak(m):
    for service in SERVICES:
        says = m.get("Service", f"tandem-{service}")["spec"]["ports"][0].get("appProtocol")
        if says != (None if "tls" in m.overlay else "kubernetes.io/h2c"):
            yield f"{service}: {says}"
