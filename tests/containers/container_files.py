"""What must hold between Dockerfile, .dockerignore, compose.yaml, scripts/images, k8s/ and CMake:
the same images, ports, flags."""

import pathlib
import re
import sys

# Debian's python3-yaml, whichever Python runs this
sys.path.append("/usr/lib/python3/dist-packages")
import yaml  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVICES = ("tandem-draft", "tandem-target", "tandem-orchestrator")
CUDA = ("tandem-draft-cuda", "tandem-target-cuda")
USER = "65532:65532"
SPARE = 10  # seconds between the last moment of a service's own and SIGKILL


def read():
    """{path: text} of every file that the rules look at."""
    paths = [ROOT / name for name in ("Dockerfile", ".dockerignore", "compose.yaml", "scripts/images", "CMakeLists.txt")]
    paths += sorted(path for path in (ROOT / "k8s").rglob("*") if path.is_file() and path.suffix != ".md")
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def flags(text):
    """{name: value} of a flag file."""
    lines = (line.strip() for line in text.splitlines())
    return dict(line.lstrip("-").partition("=")[::2] for line in lines if line.startswith("--"))


def port(address):
    return int(address.rpartition(":")[2])


class Stage:
    def __init__(self, name, base):
        self.name = name
        self.base = base
        self.steps = []  # (instruction, the rest)

    def last(self, instruction):
        found = [rest for name, rest in self.steps if name == instruction]
        return found[-1] if found else None


def stages(text):
    """{name: Stage} of a Dockerfile; a stage has its base's steps before its own."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\\\n\s*", "", text)
    found, now = {}, None
    for line in text.splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            now = found[name] = Stage(name, base)
            now.steps += found[base].steps if base in found else []
        elif instruction and now:
            now.steps.append((instruction, rest.strip()))
    return found


def images_of_kubernetes(files):
    """(path, name, tag) of each of our images that a manifest names."""
    for path, text in files.items():
        if path.startswith("k8s/"):
            for name, tag in re.findall(r"^\s*(?:- )?image: (tandem[\w-]*):(\S+)", text, re.MULTILINE):
                yield path, name, tag
            for name, new, tag in re.findall(r"^  - {name: (tandem[\w-]*), (?:newName: (\S+), )?newTag: (\S+)}", text, re.MULTILINE):
                yield path, new or name, tag


def complaints_of_names(files):
    version = re.search(r"project\(tandem VERSION (\S+)", files["CMakeLists.txt"])[1]
    script = files["scripts/images"]
    built = " ".join(re.findall(r"^(?:CUDA_)?IMAGES=\((.*)\)", script, re.MULTILINE)).split()
    if "\nVERSION=$(scripts/set-version)\n" not in script:
        yield "scripts/images: VERSION is not CMake's"
    for tag in re.findall(r"^ARG VERSION=(\S+)", files["Dockerfile"], re.MULTILINE):
        if tag != version:
            yield f"Dockerfile: VERSION {tag} is not CMake's {version}"
    known = stages(files["Dockerfile"])
    for name in built:
        if name not in known:
            yield f"scripts/images: {name} is no stage of Dockerfile"
    named = [*images_of_kubernetes(files)]
    services = yaml.safe_load(files["compose.yaml"])["services"]
    named += [("compose.yaml", *one["image"].split(":")) for one in services.values() if one["image"].startswith("tandem")]
    for path, name, tag in named:
        if name not in built:
            yield f"{path}: nobody builds an image {name}"
        if tag != version:
            yield f"{path}: {name}:{tag} is not of version {version}"
    for name in (*SERVICES, *CUDA, "tandem-demo-models"):
        if not any(one == name for _, one, _ in images_of_kubernetes(files)):
            yield f"k8s/: nobody uses {name}"


def complaints_of_dockerfile(files):
    text = files["Dockerfile"]
    known = stages(text)
    for stage in known.values():
        if stage.base != "${BASE}" and stage.base not in known:
            yield f"Dockerfile: {stage.name} comes from {stage.base}"
    if re.search(r"https?://|\w\.\w+(:\d+)?/\S+:\S+", text):
        yield "Dockerfile: names a host"
    for name in (*SERVICES, *CUDA):
        stage = known[name]
        if stage.last("USER") != USER:
            yield f"Dockerfile: {name} runs as {stage.last('USER')}"
        program = name.removesuffix("-cuda")
        if stage.last("ENTRYPOINT") != f'["/usr/local/bin/{program}"]':
            yield f"Dockerfile: {name} starts {stage.last('ENTRYPOINT')}"
        if stage.last("STOPSIGNAL") != "SIGTERM":
            yield f"Dockerfile: {name} is stopped by {stage.last('STOPSIGNAL')}"
        own = flags(files[f"k8s/base/{program.removeprefix('tandem-')}/flags"])
        wanted = f"{port(own['listen'])} {port(own['admin-listen'])}"
        if stage.last("EXPOSE") != wanted:
            yield f"Dockerfile: {name} exposes {stage.last('EXPOSE')}, its flags open {wanted}"
    if known["tandem-demo-models"].last("USER") != USER:
        yield "Dockerfile: tandem-demo-models runs as root"
    yield from complaints_of_libtorch(files, known)
    yield from complaints_of_context(files, known)


def complaints_of_libtorch(files, known):
    """The images for cards have it, at the place that its library was built for; its wheels are
    pinned."""
    for name, stage in known.items():
        if name.startswith("tandem") and any("libtorch" in rest for _, rest in stage.steps) != (name in CUDA):
            yield f"Dockerfile: {name} should {'' if name in CUDA else 'not '}have LibTorch"
    place = re.search(r"-DTANDEM_TORCH_DIR=(\S+)/torch ", files["Dockerfile"])
    for name in CUDA:
        if not place or ("COPY", f"--from=libtorch /out/libtorch/ {place[1]}/") not in known[name].steps:
            yield f"Dockerfile: {name} has LibTorch elsewhere than where its library looks"
    for name in re.findall(r"(?<!rm) -r /tmp/(\S+)", files["Dockerfile"]):
        pins = [line for line in (ROOT / "scripts" / name).read_text().splitlines() if not line.startswith("#")]
        if not pins or not all(re.fullmatch(r"[\w-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}", pin) for pin in pins):
            yield f"scripts/{name}: not all wheels are pinned"


def complaints_of_context(files, known):
    """What is copied is there, and sent; what CMake enters is copied."""
    sent = {line[1:] for line in files[".dockerignore"].splitlines() if line.startswith("!")}
    if "*" not in files[".dockerignore"].splitlines():
        yield ".dockerignore: sends more than what it names"
    copied = set()
    for stage in known.values():
        for instruction, rest in stage.steps:
            if instruction in ("COPY", "ADD") and "--from=" not in rest:
                copied.update(rest.split()[:-1])
    for path in sorted(copied):
        if not (ROOT / path).exists():
            yield f"Dockerfile: there is no {path}"
        if not any(path == one or path.startswith(one + "/") for one in sent):
            yield f".dockerignore: {path} is copied, and not sent"
    for folder in re.findall(r"^\s*add_subdirectory\((\w+)\)", files["CMakeLists.txt"], re.MULTILINE):
        if folder not in copied and folder not in ("tests", "bench"):
            yield f"Dockerfile: CMake enters {folder}, which is not copied"


def mounts(service):
    """{path inside: path here} of what is mounted from the repository."""
    parts = [one.split(":") for one in service.get("volumes", [])]
    return {inside: here.removeprefix("./") for here, inside, *_ in parts if here.startswith("./")}


def names_on_network(services):
    """{name: service} of all names that the network's DNS knows."""
    names = {name: name for name in services}
    for name, service in services.items():
        if isinstance(service["networks"], dict):
            for alias in service["networks"]["tandem"].get("aliases", []):
                names[alias] = name
    return names


def flag_file(files, service):
    return flags(files[mounts(service)["/etc/tandem/flags"]])


def complaints_of_compose(files):
    services = yaml.safe_load(files["compose.yaml"])["services"]
    for name, service in services.items():
        where = f"compose.yaml: {name}"
        if service.get("read_only") is not True or service.get("cap_drop") != ["ALL"]:
            yield f"{where} may write its root, or has capabilities"
        if service.get("security_opt") != ["no-new-privileges:true"]:
            yield f"{where} may get new privileges"
        if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", service.get("user", "")):
            yield f"{where} runs as {service.get('user')}"
        for one in service.get("ports", []):
            if not one.startswith("127.0.0.1:"):
                yield f"{where} opens {one} to all"
        for path in mounts(service).values():
            if not (ROOT / path).exists():
                yield f"{where} mounts {path}, which is not there"
        if any(not one.endswith(":ro") for one in service.get("volumes", []) if one.startswith("./")):
            yield f"{where} may write in the repository"
    names = names_on_network(services)
    for name in SERVICES:
        yield from complaints_of_service(files, services, names, name)
    yield from complaints_of_watchers(files, services, names)


def limits_of_kubernetes(files, name):
    short = name.removeprefix("tandem-")
    deployment = yaml.safe_load(files[f"k8s/overlays/cpu-only/{short}.yaml"])
    return deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]


def complaints_of_service(files, services, names, name):
    service = services[name]
    where = f"compose.yaml: {name}"
    own = flag_file(files, service)
    if service["user"] != USER or service["build"].get("target") != name or service["image"].split(":")[0] != name:
        yield f"{where} is another image, or another user"
    wanted = seconds(own["grace"]) + seconds(own.get("drain-delay", "0s")) + SPARE
    if seconds(service["stop_grace_period"]) != wanted:
        yield f"{where} has {service['stop_grace_period']} to stop, its flags ask for {wanted} s"
    if f"/127.0.0.1/{port(own['admin-listen'])} " not in service["healthcheck"]["test"][-1]:
        yield f"{where}: its health is asked for at another port than {own['admin-listen']}"
    limits = limits_of_kubernetes(files, name)
    if (str(service["cpus"]), service["mem_limit"] + "i") != (limits["cpu"], limits["memory"].lower()):
        yield f"{where} has other limits than in k8s/overlays/cpu-only: {limits}"
    for published in service.get("ports", []):
        if port(published) != port(own["listen"]):
            yield f"{where}: nobody listens at {published}"
    for flag in ("draft", "target"):
        for address in filter(None, own.get(flag, "").split(",")):
            host = address.rpartition(":")[0]
            if host not in names:
                yield f"{where}: --{flag} names {host}, which is nobody"
            elif port(flag_file(files, services[names[host]])["listen"]) != port(address):
                yield f"{where}: --{flag}: {host} listens elsewhere than {address}"
    for flag in ("model", "tokenizer"):
        if flag in own and not any(one == own[flag] or one.startswith(own[flag] + "/") for one in mounts(service)):
            yield f"{where}: nothing is mounted at --{flag}={own[flag]}"


def complaints_of_watchers(files, services, names):
    """Prometheus' and Grafana's files are those of the cluster: their names must be known here,
    too."""
    inside = mounts(services["tandem-prometheus"])
    config = yaml.safe_load(files[inside["/etc/prometheus/prometheus.yml"]])
    for rules in config["rule_files"]:
        if f"/etc/prometheus/{rules}" not in inside:
            yield f"compose.yaml: Prometheus reads {rules}, which is not mounted"
    for job in config["scrape_configs"]:
        for source in job.get("dns_sd_configs", []):
            for name in source["names"]:
                if names.get(name) != job["job_name"]:
                    yield f"compose.yaml: Prometheus asks {name}, which is not {job['job_name']}"
                elif source["port"] != port(flag_file(files, services[names[name]])["admin-listen"]):
                    yield f"compose.yaml: Prometheus asks {name} at {source['port']}"
    datasources = mounts(services["tandem-grafana"])["/etc/grafana/provisioning/datasources/tandem.yml"]
    for one in yaml.safe_load(files[datasources])["datasources"]:
        if re.fullmatch(r"http://([\w-]+):9090", one["url"])[1] not in names:
            yield f"compose.yaml: Grafana asks {one['url']}, which is nobody"
    for name in SERVICES:
        endpoint = services[name]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
        if re.fullmatch(r"http://([\w-]+):4317", endpoint)[1] not in names:
            yield f"compose.yaml: {name} sends spans to {endpoint}, which is nobody"


def complaints(files):
    return [*complaints_of_names(files), *complaints_of_dockerfile(files), *complaints_of_compose(files)]
