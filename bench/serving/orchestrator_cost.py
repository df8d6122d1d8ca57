#!/usr/bin/env python3
"""Instructions that an orchestrator takes for a round, of two builds beside each other.

    bench/serving/orchestrator_cost.py OLD/bin NEW/bin [PAIRS] [REQUESTS AT ONCE] …

Each folder has tandem, tandem-orchestrator, tandem-target and tandem-draft of one build. Each run
has services of its own, on the demo pair, and its orchestrator under valgrind's callgrind: it
counts instructions in user space, of all threads, so a busy machine changes little. What is divided
by is the orchestrator's own count of rounds. Time in the kernel is not seen; for that, measure
processor time.
"""

import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../demo")
WINDOW = "10s"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Services:
    """One build's three services; the orchestrator is under callgrind."""

    def __init__(self, folder):
        self.folder = folder
        self.scratch = tempfile.TemporaryDirectory()
        self.processes = []

    def __enter__(self):
        target = self.start([], "tandem-target", f"--model={DEMO}/target")
        draft = self.start([], "tandem-draft", f"--model={DEMO}/draft")
        self.admin_port = free_port()
        self.counts = os.path.join(self.scratch.name, "counts")
        callgrind = ["valgrind", "--tool=callgrind", "--fair-sched=yes",
                     f"--callgrind-out-file={self.counts}"]
        self.port = self.start(
            callgrind, "tandem-orchestrator", f"--target=127.0.0.1:{target}",
            f"--draft=127.0.0.1:{draft}", f"--tokenizer={DEMO}/target",
            f"--admin_listen=127.0.0.1:{self.admin_port}")
        self.orchestrator = self.processes[-1]
        return self

    def __exit__(self, *unused):
        for process in self.processes:
            process.kill()
            process.wait()
        self.scratch.cleanup()

    def start(self, before, binary, *flags):
        port_file = os.path.join(self.scratch.name, binary)
        log = open(port_file + ".log", "w")
        self.processes.append(subprocess.Popen(
            [*before, os.path.join(self.folder, binary), "--listen=127.0.0.1:0",
             f"--port_file={port_file}", *flags], stdout=log, stderr=log))
        for _ in range(1200):
            if os.path.exists(port_file) and open(port_file).read().strip():
                return open(port_file).read().strip().rsplit(":", 1)[-1]
            time.sleep(0.05)
        raise SystemExit(f"{binary} does not start:\n{open(port_file + '.log').read()}")

    def rounds(self):
        url = f"http://127.0.0.1:{self.admin_port}/metrics"
        text = urllib.request.urlopen(url).read().decode()
        return int(float(re.search(r"^tandem:rounds_total(?:{[^}]*})? (\S+)", text, re.M)[1]))

    def load(self, requests, window):
        subprocess.run(
            [os.path.join(self.folder, "tandem"), "bench", "--json", "--modes=4", "--repeats=1",
             f"--orchestrator=127.0.0.1:{self.port}", f"--concurrency={requests}",
             f"--window={window}", "--max-tokens=64"], check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    def control(self, what):
        subprocess.run(["callgrind_control", what, str(self.orchestrator.pid)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def instructions_a_round(self, requests):
        self.load(requests, "1s")  # connects, and fills caches
        self.control("-z")
        rounds = self.rounds()
        self.load(requests, WINDOW)
        rounds = self.rounds() - rounds
        self.control("-d")
        counted = re.search(r"^(?:summary|totals): (\d+)", open(self.counts + ".1").read(), re.M)
        return int(counted[1]) / rounds


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    folders = sys.argv[1:3]
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    for requests in sys.argv[4:] or ["1", "16"]:
        ratios = []
        for pair in range(pairs):
            counts = {}
            for folder in folders if pair % 2 == 0 else folders[::-1]:
                with Services(folder) as services:
                    counts[folder] = services.instructions_a_round(requests)
            ratios.append(counts[folders[1]] / counts[folders[0]])
            print(f"{requests} at once: {counts[folders[0]]:.0f} and {counts[folders[1]]:.0f} "
                  f"instructions a round, ratio {ratios[-1]:.3f}", flush=True)
        print(f"{requests} at once, ratio: {min(ratios):.3f} / {statistics.median(ratios):.3f} / "
              f"{max(ratios):.3f}", flush=True)


if __name__ == "__main__":
    main()
