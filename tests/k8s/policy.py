"""A policy yields what is wrong with manifests; its `breaks` are changes that it has to notice.

A break gets a copy of an overlay's manifests and spoils it. Those that name an overlay need what only that one has.
"""

import re

POLICIES = []


def policy(*breaks):
    def add(check):
        POLICIES.append((check, breaks))
        return check
    return add


def on(overlay):
    def mark(change):
        change.overlay = overlay
        return change
    return mark


def spoil(path, value, overlay="cpu-only", service="target", where="container"):
    """Sets what `path` (dotted) leads to, in the container (or the pod, the deployment); None: removes it."""
    @on(overlay)
    def change(m):
        here = {"container": m.container, "pod": m.pod, "deployment": m.deployment}[where](service)
        *way, last = path.split(".")
        for step in way:
            here = here[int(step) if isinstance(here, list) else step]
        if value is None:
            del here[last]
        else:
            here[int(last) if isinstance(here, list) else last] = value
    change.__name__ = f"{service}.{path} = {value}"
    return change


def flag(service, line, instead, overlay="cpu-only"):
    """In the flag file `line` (a regular expression) becomes `instead`."""
    @on(overlay)
    def change(m):
        data = m.flags_map(service)["data"]
        data["flags"], count = re.subn(line, instead, data["flags"])
        assert count, line
    change.__name__ = f"{service}: {line} becomes {instead!r}"
    return change


def spoil_object(kind, name, overlay, change):
    @on(overlay)
    def spoiled(m):
        change(m.get(kind, name))
    spoiled.__name__ = f"{kind} {name}"
    return spoiled


def remove(kind, name, overlay="cpu-only"):
    @on(overlay)
    def change(m):
        m.objects.remove(m.get(kind, name))
    change.__name__ = f"without {kind} {name}"
    return change
