"""A policy yields what is wrong with manifests; its `breaks` are changes that it has to notice.

A break gets a copy of an overlay's manifests and spoils it. Those that name an overlay need what
only that one has. """

import functools
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


def spoil(what, path, value, overlay="cpu-only"):
    """Sets what the dotted `path` leads to in "Kind name", or in a service's "pod" or "container";
    None removes it."""
    @on(overlay)
    def change(m):
        kind, name = what.split()
        here = {"pod": m.pod, "container": m.container}.get(kind, functools.partial(m.get, kind))(name)
        *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
        for step in way:
            here = here[step]
        if value is None:
            del here[last]
        else:
            here[last] = value
    change.__name__ = f"{what}: {path} = {value}"
    return change


def flag(service, line, instead, overlay="cpu-only", file="flags"):
    """In the flag file `line` (a regular expression) becomes `instead`."""
    @on(overlay)
    def change(m):
        data = m.flags_map(service)["data"]
        data[file], count = re.subn(line, instead, data[file])
        assert count, line
    change.__name__ = f"{service}: {line} becomes {instead!r}"
    return change


def remove(what, overlay="cpu-only"):
    @on(overlay)
    def change(m):
        m.objects.remove(m.get(*what.split()))
    change.__name__ = f"without {what}"
    return change
