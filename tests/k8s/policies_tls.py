"""Policies of encryption: with the component tls all of it, without it nothing that says otherwise."""

import re

from manifests import SERVICES, certificates
from policy import flag, on, policy, spoil, spoil_object

SERVER = {"tls_certificate": "tls.crt", "tls_key": "tls.key"}
MUTUAL = {**SERVER, "tls_client_ca": "ca.crt"}
CALLER = {"peer_tls_certificate": "tls.crt", "peer_tls_key": "tls.key", "peer_tls_ca": "ca.crt"}
FILES = {"draft": MUTUAL, "target": MUTUAL, "orchestrator": {**SERVER, **CALLER, "token_file": "tokens"}}
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


def tls_flag(service, line, instead):
    @on(TLS)
    def change(m):
        data = m.flags_map(service)["data"]
        data["tls"], count = re.subn(line, instead, data["tls"])
        assert count, line
    change.__name__ = f"{service}: {line} becomes {instead!r}"
    return change


@policy(tls_flag("target", "--tls_client_ca=.*", ""), tls_flag("draft", "tls.key", "tls.crt"),
        tls_flag("orchestrator", "--peer_tls_certificate=/etc/tandem-peer-tls", "--peer_tls_certificate=/etc/tandem-tls"),
        tls_flag("orchestrator", "--token_file=.*", ""), flag("orchestrator", "--draft=.*", "--draft=other:50051", TLS),
        tls_flag("target", "--tls_certificate", "--tls_certificates"), flag("draft", "$", "--tls_key=/k\n", "gpu"),
        spoil("volumes.0.secret.secretName", "tandem-draft-tls", TLS, where="pod"),
        spoil("volumes.0.secret.defaultMode", 0o444, TLS, where="pod"),
        spoil("volumeMounts.0.subPath", "tls.crt", TLS), spoil("volumeMounts.0.readOnly", False, TLS))
def encryption_is_whole(m):
    """Mutual between the services, with tokens in front; each certificate is one that is ordered, for what it is used."""
    for service in SERVICES:
        flags = {name: value for name, value in m.flags(service).items() if "tls_" in name or name == "token_file"}
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
            if name == "token_file":
                wanted, usage = TOKENS, None
            elif name.startswith("peer_"):
                wanted, usage = "tandem-orchestrator-peer-tls", "client auth"
            else:
                wanted, usage = f"tandem-{service}-tls", "server auth"
            if secret != wanted:
                yield f"{service}: --{name} is of {secret}, not of {wanted}"
            elif usage and [one for one in certificate_of(secret).get("usages", []) if "auth" in one] != [usage]:
                yield f"{service}: {secret} is not for {usage} alone"
        for volume in m.pod(service)["volumes"]:
            if volume.get("secret", {}).get("defaultMode", 0o440) != 0o440:
                yield f"{service}: {volume['name']} is readable for others"
    if "tls" in m.overlay:
        for name in ("draft", "target"):
            host = m.flags("orchestrator")[name].partition(":")[0]
            if host not in certificate_of(f"tandem-{name}-tls").get("dnsNames", []):
                yield f"{name}: its certificate is not for {host}"


def break_protocol(one):
    one["spec"]["ports"][0]["appProtocol"] = "kubernetes.io/h2c"


@policy(spoil_object("Service", "tandem-orchestrator", TLS, break_protocol),
        spoil_object("Service", "tandem-draft", "gpu", lambda one: one["spec"]["ports"][0].pop("appProtocol")))
def services_say_what_their_ports_speak(m):
    for service in SERVICES:
        says = m.get("Service", f"tandem-{service}")["spec"]["ports"][0].get("appProtocol")
        if says != (None if "tls" in m.overlay else "kubernetes.io/h2c"):
            yield f"{service}: {says}"
