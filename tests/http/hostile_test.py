"""What nobody should send, at the real port: refused with its status or closed, and nothing is left
behind.

TANDEM_HOSTILE_SECONDS: random requests go on for so long (`scripts/test --full`). Each kind of
wrong request by itself: tests/common/http.
"""

import json
import os
import pathlib
import random
import re
import select
import socket
import time
import unittest

from served import PROMPT, Served, eventually

# What is freed goes back at once, so that a process's memory is what it holds.
os.environ.update(MALLOC_ARENA_MAX="1", MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="65536")
SECONDS = float(os.environ.get("TANDEM_HOSTILE_SECONDS", 0))
BODY = json.dumps({"prompt": PROMPT}).encode()
CLOSE = "Connection: close"
# Of what is not a request, or a wrong one. Never a fault of the server's.
REFUSALS = {400, 403, 404, 405, 408, 413, 415, 417, 431, 501, 505}
JSON = "Content-Type: application/json"


def request(body=BODY, *headers, line="POST /tokenize HTTP/1.1", host="Host: localhost", length=True, kind=JSON):
    lines = [line, host, *([kind] if kind else []), *([f"Content-Length: {len(body)}"] if length else []), *headers]
    return "\r\n".join([one for one in lines if one] + ["", ""]).encode("latin-1") + body


def chunked(body, size, *headers):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[at:at + size]), body[at:at + size])
                      for at in range(0, len(body), size))
    return request(chunks + b"0\r\n\r\n", "Transfer-Encoding: chunked", *headers, length=False)


def statuses(answer):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def exchange(port, datas, patience, cuts=lambda data: [data]):
    """Sends each over a connection of its own, all at once. What came back of each within
    `patience` seconds, or until the connection was closed."""
    answers, open_ones = {}, {}
    for i, data in enumerate(datas):
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers[i] = b""
        open_ones[connection] = i
        try:
            for piece in cuts(data):
                connection.sendall(piece)
        except OSError:
            pass  # refused before its end
    end = time.monotonic() + patience
    while open_ones and time.monotonic() < end:
        ready, _, _ = select.select(list(open_ones), [], [], max(0, end - time.monotonic()))
        for connection in ready:
            try:
                more = connection.recv(1 << 16)
            except OSError:
                more = b""
            answers[open_ones[connection]] += more
            if not more:
                del open_ones[connection]
                connection.close()
    for connection in open_ones:
        connection.close()
    return list(answers.values())


class HostileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Few sequences, so that their caches are all in use soon, and memory grows no more for
        # them.
        cls.served = Served("--max-sequences=4")
        cls.process = pathlib.Path(f"/proc/{cls.served.process.process.pid}")

    @classmethod
    def tearDownClass(cls):
        cls.served.__exit__()

    def tearDown(self):
        eventually(self.served.check_idle)
        self.served.process.check_alive()

    def check(self, cases, patience=60):
        """`cases`: what is sent, and the statuses of the answers. Their connections end with
        them."""
        for data, answer, wanted in zip(cases, exchange(self.served.http_port, cases, patience), cases.values()):
            with self.subTest(data[:200]):
                self.assertEqual(statuses(answer), wanted, answer[:500])
                if wanted[-1] >= 400:
                    head, _, body = answer.rpartition(b"\r\n\r\n")
                    self.assertIn(b"Connection: close", head)
                    self.assertTrue(json.loads(body)["error"]["message"])

    def test_pipelined_requests_are_answered_in_their_order_up_to_the_first_wrong_one(self):
        ones = [request(json.dumps({"prompt": "x" * i}).encode()) for i in range(1, 101)]
        (answer,) = exchange(self.served.http_port, [b"".join(ones) + request(BODY, CLOSE)], 60)
        self.assertEqual(statuses(answer), [200] * 101)
        counts = [int(count) for count in re.findall(rb'"count":(\d+)', answer)]
        self.assertEqual(counts[:100], sorted(counts[:100]))
        (answer,) = exchange(self.served.http_port, [ones[0] + ones[1] + b"nonsense\r\n\r\n" + ones[2]], 60)
        self.assertEqual(statuses(answer), [200, 200, 400])

    def test_a_page_of_another_site_is_refused(self):
        page = ["Sec-Fetch-Mode: cors", CLOSE]
        self.check({
            request(BODY, *page, kind="Content-Type: text/plain"): [415],
            request(BODY, *page, kind=""): [415],
            request(BODY, *page, kind="Content-Type: application/x-www-form-urlencoded"): [415],
            request(BODY, *page, "Origin: https://evil.example"): [403],
            request(BODY, *page, "Origin: null"): [403],
            request(BODY, *page, "Sec-Fetch-Site: cross-site"): [403],
            request(BODY, *page, host="Host: evil.example:8000"): [403],
            request(BODY, *page, "Origin: http://evil.example", host="Host: evil.example"): [403],
            request(b"", CLOSE, line="GET /v1/models HTTP/1.1", host="Host: evil.example", kind=""): [403],
            request(b"", CLOSE, line="GET / HTTP/1.1", host="Host: evil.example", kind=""): [403],
            # Its own page, its user's machine, a probe, a program.
            request(BODY, *page, "Origin: http://localhost", "Sec-Fetch-Site: same-origin"): [200],
            request(BODY, *page, "Origin: http://127.0.0.1:3000", "Sec-Fetch-Site: cross-site"): [200],
            request(BODY, CLOSE, host="Host: 10.0.0.7:8000"): [200],
            request(b"", CLOSE, line="GET /health HTTP/1.1", host="Host: anything", kind=""): [200],
            request(b"", CLOSE, line="GET / HTTP/1.1", kind=""): [200],
        })

    def test_nothing_is_left_of_random_requests_and_large_ones(self):
        rng = random.Random(20)
        self.send_random(rng, 120)
        self.send_large()
        eventually(self.served.check_idle)
        before = self.held()
        end = time.monotonic() + SECONDS
        rounds = 0
        while rounds < 3 or time.monotonic() < end:
            self.send_random(rng, 120)
            self.send_large()
            rounds += 1
        eventually(self.served.check_idle)
        eventually(lambda: self.check_let_go(before))
        status, answer = self.served.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 2, "n": 4})
        self.assertEqual(status, 200, answer)
        print(f"{rounds} rounds; memory {before[0] >> 20} MiB before, {self.held()[0] >> 20} MiB after")

    def send_random(self, rng, count):
        completion = {"prompt": PROMPT, "max_tokens": 1, "n": 2, "stop": ["x"], "tandem": {"rule": "block"}}
        valid = [
            request(), chunked(BODY, 7), request(BODY, CLOSE, line="POST /detokenize HTTP/1.0"),
            request(json.dumps(completion).encode(), line="POST /v1/completions HTTP/1.1"),
            request(json.dumps({**completion, "stream": True}).encode(), line="POST /v1/completions HTTP/1.1"),
            request(b"", line="GET /health HTTP/1.1", length=False) * 3,
            request(BODY, "Expect: 100-continue", "Accept: */*", "User-Agent: x"),
        ]
        answers = exchange(self.served.http_port, [self.changed(rng, rng.choice(valid)) for _ in range(count)], 0.3,
                           lambda data: self.pieces(rng, data))
        for answer in answers:
            self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 "), answer[:200])
            # 429: 120 at once may fill the line.
            self.assertLessEqual(set(statuses(answer)), REFUSALS | {100, 200, 429}, answer[:500])

    @staticmethod
    def changed(rng, data):
        data = bytearray(data)
        for _ in range(rng.randrange(5)):
            at = rng.randrange(len(data) + 1)
            kind = rng.randrange(4)
            if kind == 0:
                data[at:at + 1] = bytes([rng.randrange(256)])
            elif kind == 1:
                data[at:at] = rng.choice([b"\0", b"\r\n", b"\xff", b"[", b"{", b'"', b":", b"0", b",", b"\r\n\r\n"])
            elif kind == 2:
                del data[at:at + rng.randrange(1, 9)]
            else:
                data[at:at] = data[rng.randrange(len(data) + 1):][:rng.randrange(80)]
        return bytes(data)

    @staticmethod
    def pieces(rng, data):
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(4)))
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)]) if b > a]

    def send_large(self):
        """Whole bodies that are wrong at their end, and half ones."""
        large = b'{"prompt": "' + b"x" * (2 << 20)
        datas = [request(large + b'"', CLOSE)] * 4 + [request(large)[:-1000]] * 4
        answers = exchange(self.served.http_port, datas, 0.5)
        for answer in answers:
            self.assertLessEqual(set(statuses(answer)), {400, 429})

    def held(self):
        """Bytes of memory, descriptors, threads."""
        status = (self.process / "status").read_text()
        values = {name: int(re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)[1]) for name in ("VmRSS", "Threads")}
        return values["VmRSS"] << 10, len(list((self.process / "fd").iterdir())), values["Threads"]

    def check_let_go(self, before):
        """In a round 16 MiB of bodies come, over 128 connections. gRPC's pool and its timers start
        a few threads when they are busy; a thread that a connection, a request or a large body
        leaves behind comes dozens of times."""
        now = self.held()
        assert now[0] < before[0] + (16 << 20), f"memory: {before} before, {now} after"
        assert now[1] <= before[1] + 2, f"descriptors: {before} before, {now} after"
        assert now[2] <= before[2] + 8, f"threads: {before} before, {now} after"


if __name__ == "__main__":
    unittest.main()
