"""Many streams of OpenAI's API at once: first tokens, pace, and what the server takes for them.

    http_streams.py BIN [STREAMS] [TOKENS]

BIN is a folder with tandem-model and tandem. It starts `tandem serve` on the demo pair and asks it twice in turn: over
HTTP, STREAMS streams by itself; over gRPC, `tandem bench` with as many requests at once. The requests of both run on
one model on this machine's processor, so most of a first token's time is waiting for it, and the same for both. What
differs is what the front costs. Memory and threads are those of the server's process.
"""

import asyncio
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def status(pid, name):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise KeyError(name)


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def stream(port, tokens, seed):
    """Seconds to the first token, and to the end."""
    body = json.dumps({"prompt": "The city was", "max_tokens": tokens, "ignore_eos": True, "stream": True,
                       "seed": seed, "temperature": 1, "return_token_ids": True}).encode()
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: "
                 + str(len(body)).encode() + b"\r\n\r\n" + body)
    first, data = None, b""
    while part := await reader.read(65536):
        first = first or (time.monotonic() - began if b"data: " in part else None)
        data = (data + part)[-64:]
    writer.close()
    assert b"data: [DONE]" in data, data
    return first, time.monotonic() - began


async def over_http(port, streams, tokens):
    return await asyncio.gather(*(stream(port, tokens, seed) for seed in range(streams)))


def quantiles(values):
    values = sorted(values)
    return " ".join(f"p{p} {values[min(len(values) - 1, len(values) * p // 100)] * 1000:.0f} ms" for p in (50, 95, 99))


def wait_for(path, process):
    while not path.exists() or not path.read_text().strip():
        assert process.poll() is None, "the server ended"
        time.sleep(0.05)
    return int(path.read_text())


def main():
    binaries = pathlib.Path(sys.argv[1])
    streams = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    tokens = int(sys.argv[3]) if len(sys.argv) > 3 else 32
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "wb") as log:
        server = subprocess.Popen(
            [binaries / "tandem-model", "serve", f"--target-model={ROOT}/demo/target",
             f"--draft-model={ROOT}/demo/draft", "--listen=127.0.0.1:0", f"--port-file={folder}/grpc",
             "--http-listen=127.0.0.1:0", f"--http-port-file={folder}/http", f"--max-sequences={streams}",
             f"--max-active-requests={streams}"], stdout=log, stderr=log)
        try:
            ports = {name: wait_for(pathlib.Path(folder) / name, server) for name in ("grpc", "http")}
            print(f"idle: {status(server.pid, 'VmRSS') >> 10} MiB, {status(server.pid, 'Threads')} threads")
            before, began = processor_seconds(server.pid), time.monotonic()
            times = asyncio.run(over_http(ports["http"], streams, tokens))
            took = time.monotonic() - began
            print(f"HTTP, {streams} streams of {tokens} tokens: first token {quantiles([one for one, _ in times])}; "
                  f"end {quantiles([one for _, one in times])}; {streams * tokens / took:.0f} tokens/s, "
                  f"{(processor_seconds(server.pid) - before) * 1e6 / streams / tokens:.0f} us of processor a token")
            print(f"  then: {status(server.pid, 'VmHWM') >> 10} MiB at most, {status(server.pid, 'Threads')} threads")
            print(f"gRPC, the same number at once (tandem bench, port {ports['grpc']}):", flush=True)
            subprocess.run([binaries / "tandem", "bench", f"--orchestrator=127.0.0.1:{ports['grpc']}",
                            f"--concurrency={streams}"], check=True)
            print(f"  then: {status(server.pid, 'VmHWM') >> 10} MiB at most")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
