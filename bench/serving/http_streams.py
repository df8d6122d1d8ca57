"""Many streams at once over HTTP beside as many over gRPC: first tokens, and what they take of the orchestrator.

    http_streams.py BUILD [STREAMS] [TOKENS] [TURNS]

BUILD is a build folder with the orchestrator and bench/stub_pair: a target and a draft that compute nothing, so that
what is measured is the orchestrator's. In each turn STREAMS requests of TOKENS tokens begin at the same time, over
HTTP and over gRPC, each with a new orchestrator. Memory, threads and processor time are the orchestrator's alone. The
clients run on the same processor, and the one over gRPC, the Python package's stub, takes more of it.
"""

import asyncio
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/clients"))
import package  # noqa: E402, F401: makes tandem_client importable
import grpc.aio  # noqa: E402
from tandem_client import v1  # noqa: E402
from tandem_client.v1 import generation_pb2_grpc  # noqa: E402

CHANNELS = 16
PROMPT = "The city was"


class Orchestrator:
    """It listens when the constructor returns."""

    def __init__(self, build, folder, target, draft, streams):
        self.folder = pathlib.Path(folder)
        for path in self.folder.iterdir():
            path.unlink()
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [build / "bin/tandem-orchestrator", f"--tokenizer={ROOT}/demo/target", f"--target={target}",
                 f"--draft={draft}", "--listen=127.0.0.1:0", f"--port-file={folder}/grpc", "--http-listen=127.0.0.1:0",
                 f"--http-port-file={folder}/http", f"--max-active-requests={streams}"], stdout=log, stderr=log)
        self.ports = {name: self.wait_for(name) for name in ("grpc", "http")}

    def wait_for(self, name):
        path = self.folder / name
        while not path.exists() or not path.read_text().strip():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)
        return int(path.read_text())

    def status(self, name):
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def stop(self):
        self.process.terminate()
        self.process.wait()


async def http_stream(port, tokens, seed):
    """Seconds to the first token, and to the end."""
    body = json.dumps({"prompt": PROMPT, "max_tokens": tokens, "ignore_eos": True, "stream": True, "seed": seed,
                       "temperature": 0, "tandem": {"draft_tokens": 4}}).encode()
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Connection: close\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
    first, events, data = None, 0, b""
    while part := await reader.read(65536):
        events += part.count(b"data: ")
        first = first or (time.monotonic() - began if events > 1 else None)  # one event says that it has begun
        data = (data + part)[-400:]
    writer.close()
    assert b"data: [DONE]" in data, data.decode()
    return first, time.monotonic() - began


async def over_http(orchestrator, streams, tokens):
    return await asyncio.gather(*(http_stream(orchestrator.ports["http"], tokens, seed) for seed in range(streams)))


async def grpc_stream(stub, tokens, seed):
    request = v1.GenerateRequest(text=PROMPT, max_tokens=tokens, stop=v1.StopRules(ignore_eos=True), seed=seed,
                                 sampling=v1.SamplingOptions(temperature=0),
                                 speculation=v1.SpeculationOptions(fixed=4))
    began, first, ended = time.monotonic(), None, False
    async for reply in stub.Generate(request):
        first = first or (time.monotonic() - began if reply.HasField("delta") else None)
        ended = reply.HasField("last")
    assert ended
    return first, time.monotonic() - began


async def over_grpc(orchestrator, streams, tokens):
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(f"127.0.0.1:{orchestrator.ports['grpc']}", options)
                for _ in range(CHANNELS)]
    stubs = [generation_pb2_grpc.GenerationStub(channel) for channel in channels]
    times = await asyncio.gather(*(grpc_stream(stubs[seed % CHANNELS], tokens, seed) for seed in range(streams)))
    for channel in channels:
        await channel.close()
    return times


def measure(front, orchestrator, streams, tokens):
    try:
        asyncio.run(front(orchestrator, 4, tokens))  # it has found its peers
        at_rest, before = orchestrator.status("VmRSS"), orchestrator.processor_seconds()
        times = asyncio.run(front(orchestrator, streams, tokens))
        firsts = sorted(first for first, _ in times)
        return {"first token p50, ms": firsts[len(firsts) // 2] * 1e3,
                "first token p99, ms": firsts[len(firsts) * 99 // 100] * 1e3,
                "all have ended, s": max(end for _, end in times),
                "processor time a token, us": (orchestrator.processor_seconds() - before) * 1e6 / streams / tokens,
                "memory a stream, KiB": (orchestrator.status("VmHWM") - at_rest) / streams,
                "memory at most, MiB": orchestrator.status("VmHWM") / 1024,
                "threads": orchestrator.status("Threads")}
    finally:
        orchestrator.stop()


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    streams, tokens, turns = (int(sys.argv[i]) if len(sys.argv) > i else default
                              for i, default in ((2, 1000), (3, 128), (4, 7)))
    fronts = {"HTTP": over_http, "gRPC": over_grpc}
    found = {name: [] for name in fronts}
    peers = subprocess.Popen([build / "bench/stub_pair", ROOT / "demo/target"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    try:
        target, draft = peers.stdout.readline().split()
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(turns):
                for name in list(fronts)[::1 if turn % 2 == 0 else -1]:
                    orchestrator = Orchestrator(build, folder, target, draft, streams)
                    found[name].append(measure(fronts[name], orchestrator, streams, tokens))
    finally:
        peers.terminate()
        peers.wait()
    print(f"{streams} streams of {tokens} tokens at once, {turns} turns: medians, and HTTP to gRPC, min/median/max")
    for what in found["HTTP"][0]:
        http, rpc = ([one[what] for one in found[name]] for name in ("HTTP", "gRPC"))
        ratios = sorted(a / b for a, b in zip(http, rpc))
        print(f"{what:28} HTTP {statistics.median(http):9.1f}   gRPC {statistics.median(rpc):9.1f}   "
              f"{ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
