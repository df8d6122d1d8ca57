#!/usr/bin/env python3
"""Processor time that an orchestrator takes for a round, of one build or of two beside each other.

    bench/serving/orchestrator_cost.py BUILD[,OTHER] [TURNS] [REQUESTS AT ONCE] …

A BUILD is a folder with bin/ and bench/. Target and draft are those of bench/device_pair: their
passes take 8 and 0.8 ms and no processor. Each line has the rounds of some seconds with four draft
tokens, by the orchestrator's own count, and microseconds per round in user space and in the kernel.
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

HERE = os.path.dirname(os.path.abspath(__file__))
LETTERS = "abcdefghijkl"  # the vocabulary of device_pair
TOKENIZER = """{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
  "normalizer": null, "post_processor": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
  "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
  "model": {"type": "BPE", "merges": [], "vocab": {%s}}}"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Services:
    """An orchestrator in front of the peers of its build."""

    def __init__(self, build):
        self.build = build
        self.scratch = tempfile.TemporaryDirectory()

    def __enter__(self):
        with open(os.path.join(self.scratch.name, "tokenizer.json"), "w") as file:
            file.write(TOKENIZER % ", ".join(f'"{c}": {i}' for i, c in enumerate(LETTERS)))
        self.peers = subprocess.Popen([os.path.join(self.build, "bench/device_pair")], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        _, target, draft = (self.peers.stdout.readline().strip() for _ in range(3))
        self.admin_port, port_file = free_port(), os.path.join(self.scratch.name, "port")
        self.orchestrator = subprocess.Popen(
            [os.path.join(self.build, "bin/tandem-orchestrator"), f"--target={target}",
             f"--draft={draft}", f"--tokenizer={self.scratch.name}",
             f"--admin_listen=127.0.0.1:{self.admin_port}", "--listen=127.0.0.1:0",
             f"--port_file={port_file}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if os.path.exists(port_file) and (text := open(port_file).read().strip()):
                self.port = text.rsplit(":", 1)[-1]
                return self
            time.sleep(0.05)
        raise SystemExit(f"the orchestrator of {self.build} does not listen within 30 s")

    def __exit__(self, *unused):
        for process in (self.orchestrator, self.peers):
            process.terminate()
            process.wait()
        self.scratch.cleanup()

    def rounds(self):
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics").read().decode()
        counts = re.findall(r"^tandem:rounds_total(?:{[^}]*})? (\S+)", page, re.M)
        return sum(float(count) for count in counts)

    def microseconds(self):
        """In user space and in the kernel, of all its threads so far."""
        with open(f"/proc/{self.orchestrator.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return [int(ticks) * 1e6 / os.sysconf("SC_CLK_TCK") for ticks in fields[11:13]]

    def load(self, requests, window):
        subprocess.run(
            [os.path.join(self.build, "bin/tandem"), "bench", "--json", "--modes=4", "--repeats=1",
             f"--orchestrator=127.0.0.1:{self.port}", f"--concurrency={requests}",
             f"--window={window}", "--max-tokens=128", f"--prompts-file={HERE}/letters.txt"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def a_round(self, requests):
        self.load(requests, "1s")  # connects, and fills caches
        rounds, before = self.rounds(), self.microseconds()
        self.load(requests, "5s")
        rounds, after = self.rounds() - rounds, self.microseconds()
        return rounds, *((b - a) / rounds for a, b in zip(before, after))


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    builds = sys.argv[1].split(",")
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    for requests in sys.argv[3:] or ["1", "16", "64", "512"]:
        totals = {build: [] for build in builds}
        for turn in range(turns):
            for build in builds if turn % 2 == 0 else builds[::-1]:
                with Services(build) as services:
                    rounds, user, kernel = services.a_round(requests)
                totals[build].append(user + kernel)
                print(f"{requests} at once, {build}: {rounds:.0f} rounds, "
                      f"{user:.1f} + {kernel:.1f} µs per round", flush=True)
        for build, total in totals.items():
            print(f"{requests} at once, {build}: {min(total):.1f} / {statistics.median(total):.1f} "
                  f"/ {max(total):.1f} µs per round", flush=True)
        if len(builds) == 2:
            ratios = [b / a for a, b in zip(*totals.values())]
            print(f"{requests} at once, ratio: {min(ratios):.3f} / {statistics.median(ratios):.3f} "
                  f"/ {max(ratios):.3f}", flush=True)


if __name__ == "__main__":
    main()
