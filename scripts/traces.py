"""Traces as Jaeger's query API has them: fetched, and put together into a tree.

For scripts/trace-tree and tests/observability. Python's own library only.
"""

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request

JAEGER = os.environ.get("TANDEM_JAEGER_URL", "http://127.0.0.1:16686")
FRONT = "tandem-orchestrator"  # the service that a request's trace begins in


class Unreachable(Exception):
    """No Jaeger answers there."""


class Span:
    """One span. Times in microseconds; `start` is since the epoch."""

    def __init__(self, raw, processes):
        self.trace_id = raw["traceID"]
        self.id = raw["spanID"]
        self.name = raw["operationName"]
        process = processes[raw["processID"]]
        self.service = process["serviceName"]
        self.resource = {tag["key"]: tag["value"] for tag in process.get("tags", [])}
        self.start = raw["startTime"]
        self.duration = raw["duration"]
        self.tags = {tag["key"]: tag["value"] for tag in raw["tags"]}
        self.parent_id = None
        self.links = []  # (trace id, span id)
        for reference in raw["references"]:
            if reference["refType"] == "CHILD_OF" and reference["traceID"] == self.trace_id:
                self.parent_id = reference["spanID"]
            elif reference["refType"] == "FOLLOWS_FROM":
                self.links.append((reference["traceID"], reference["spanID"]))
        self.parent = None
        self.children = []

    @property
    def end(self):
        return self.start + self.duration

    @property
    def failed(self):
        return self.tags.get("otel.status_code") == "ERROR"

    def below(self):
        """Itself and all below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.below()


class Trace:
    """All spans of one trace that Jaeger has by now."""

    def __init__(self, raw):
        self.id = raw["traceID"]
        self.spans = [Span(span, raw["processes"]) for span in raw["spans"]]
        by_id = {span.id: span for span in self.spans}
        for span in sorted(self.spans, key=lambda one: (one.start, -one.duration)):
            span.parent = by_id.get(span.parent_id)
            if span.parent:
                span.parent.children.append(span)
        # A parent that is not there: the client's own span, or one that Jaeger does not have yet.
        self.roots = sorted((span for span in self.spans if not span.parent), key=lambda one: one.start)

    def named(self, name):
        return [span for span in self.spans if span.name == name]

    def whole(self):
        """Whether all has come: the services send their spans on their own, in batches."""
        if len(self.roots) != 1 or self.roots[0].name != "generate":
            return bool(self.named("target.pass"))
        sent = [span for span in self.named("verify") if not span.failed]
        return all(any(child.name == "target.step" for child in span.children) for span in sent)


def get(path, base=JAEGER, **parameters):
    """The `data` of an answer; None where there is none of it."""
    url = f"{base}{path}"
    if parameters:
        url += "?" + urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise
    except OSError as error:
        raise Unreachable(f"no Jaeger answers at {base} ({error})") from error


def fetch(trace_id, base=JAEGER):
    """The trace as Jaeger has it, or None."""
    data = get(f"/api/traces/{trace_id}", base)
    return data[0] if data else None


def latest(base=JAEGER, service=FRONT, limit=1, operation="generate"):
    """The youngest traces of a service, as Jaeger has them; the youngest first."""
    data = get("/api/traces", base, service=service, operation=operation, limit=limit, lookback="6h") or []
    return sorted(data, key=lambda raw: -min(span["startTime"] for span in raw["spans"]))


def link(trace_id, base=JAEGER):
    """Where a person looks at it: a page, or the API where this Jaeger was built without pages."""
    try:
        with urllib.request.urlopen(base, timeout=30) as answer:
            has_pages = b"not the Jaeger UI" not in answer.read()
    except OSError:
        has_pages = False
    return f"{base}/trace/{trace_id}" if has_pages else f"{base}/api/traces/{trace_id}"


def wait(trace_id, seconds, base=JAEGER):
    """The trace once it is whole; after so many seconds what there is of it, or None."""
    deadline = time.monotonic() + seconds
    while True:
        raw = fetch(trace_id, base)
        if (raw and Trace(raw).whole()) or time.monotonic() > deadline:
            return raw
        time.sleep(0.2)


def passes(trace, base=JAEGER):
    """The target's passes that decided this trace's rounds, as (trace id, span id): span."""
    wanted = {link for span in trace.named("target.step") for link in span.links}
    found = {}
    for trace_id in sorted({link[0] for link in wanted}):
        raw = fetch(trace_id, base)
        for span in Trace(raw).spans if raw else []:
            found[span.trace_id, span.id] = span
    return {key: span for key, span in found.items() if key in wanted}
