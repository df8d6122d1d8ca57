#!/usr/bin/env python3
"""`auto` to plain decoding, with one orchestrator and with two at one target (demo pair).

    bench/serving/orchestrators.py BIN [TURNS] [REQUESTS AT ONCE] …

BIN has the programs of a build. A turn keeps so many requests running for a window under each mode,
auto and off interleaved, spread over the orchestrators. Prints minimum, median and maximum of the
turns' ratios of tokens per second. The services stay for all turns, so what `auto` has learned
stays, too.
"""
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../demo")
WINDOW = "4s"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


class Services:
    def __init__(self, folder, orchestrators):
        self.folder, self.processes = folder, []
        self.log = tempfile.TemporaryFile()
        draft, target = free_port(), free_port()
        self.start("tandem-draft", f"--model={DEMO}/draft", f"--listen={draft}")
        self.start("tandem-target", f"--model={DEMO}/target", f"--listen={target}")
        self.addresses = [free_port() for _ in range(orchestrators)]
        for address in self.addresses:
            self.start("tandem-orchestrator", f"--draft={draft}", f"--target={target}",
                       f"--tokenizer={DEMO}/target", f"--listen={address}")

    def start(self, program, *flags):
        self.processes.append(subprocess.Popen([os.path.join(self.folder, program), *flags],
                                               stdout=self.log, stderr=self.log))

    def wait(self):
        for address in self.addresses:
            for _ in range(60):
                done = subprocess.run([os.path.join(self.folder, "tandem"), "generate", "a", "--max-tokens=2",
                                       f"--orchestrator={address}"], capture_output=True)
                if done.returncode == 0:
                    break
                time.sleep(1)
            else:
                raise SystemExit(done.stderr.decode())

    def speed(self, mode, requests):
        benches = []
        for i, address in enumerate(self.addresses):
            own = len(range(i, requests, len(self.addresses)))
            if own == 0:
                continue
            benches.append(subprocess.Popen(
                [os.path.join(self.folder, "tandem"), "bench", f"--orchestrator={address}", f"--concurrency={own}",
                 f"--modes={mode}", "--repeats=1", f"--window={WINDOW}", "--temperature=0", "--json"],
                stdout=subprocess.PIPE, stderr=self.log))
        return sum(tokens_per_second(json.loads(bench.communicate()[0])) for bench in benches)

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def tokens_per_second(report):
    (mode,) = report["load"][0]["modes"].values()
    return mode["tokens_per_second"]["median"]


def main():
    folder = sys.argv[1]
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    loads = [int(load) for load in sys.argv[3:]] or [1, 4, 16, 64]
    print("auto to plain decoding, minimum / median / maximum of", turns, "turns")
    for orchestrators in (1, 2):
        services = Services(folder, orchestrators)
        try:
            services.wait()
            for load in loads:
                services.speed("auto", load)
                ratios = [services.speed("auto", load) / services.speed("off", load) for _ in range(turns)]
                print(f"{orchestrators} orchestrators, {load:2} requests: {min(ratios):.2f} / "
                      f"{statistics.median(ratios):.2f} / {max(ratios):.2f}", flush=True)
        finally:
            services.stop()


if __name__ == "__main__":
    main()
