"""The HTTP port of a whole system: paths, errors, tokens, bad input, clients that leave, the
end."""

import json
import pathlib
import signal
import shutil
import socket
import subprocess
import tempfile
import unittest

from served import BINARIES, PROMPT, ROOT, Address, Served, eventually, services


def head_and_body(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode(), body


def request(path, body, *headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Content-Length: {len(data)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data


SERVED = Served()


def tearDownModule():
    SERVED.__exit__()


class Api(unittest.TestCase):
    served = SERVED

    def wrong(self, body, code=400):
        status, answer = self.served.post("/v1/completions", body)
        self.assertEqual(status, code, answer)
        self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})
        return answer["error"]

    def test_paths(self):
        self.assertEqual(self.served.get("/health"), (200, {"status": "ok"}))
        status, version = self.served.get("/version")
        self.assertEqual((status, list(version)), (200, ["version"]))
        status, models = self.served.get("/v1/models")
        self.assertEqual((status, models["object"]), (200, "list"))
        (model,) = models["data"]
        self.assertEqual(model["id"], "target")
        self.assertTrue(model["tandem"]["chat_template"])
        self.assertIn("prompt-lookup", model["tandem"]["drafters"])
        self.assertGreater(model["max_model_len"], 0)
        self.assertEqual(self.served.get("/v1/models/target"), (200, model))
        status, answer = self.served.get("/v1/models/other")
        self.assertEqual((status, answer["error"]["code"]), (404, "model_not_found"))
        self.assertEqual(self.served.get("/v1/models/t%61rget"), (200, model))
        self.assertEqual(self.served.get("/nothing")[0], 404)
        status, answer = self.served.get("/v1/chat/completion")
        self.assertEqual((status, answer["error"]["message"]),
                         (404, "unknown path '/v1/chat/completion' (did you mean '/v1/chat/completions'?)"))
        self.assertEqual(self.served.get("/v1/completions")[0], 405)
        self.assertEqual(self.served.post("/health", {})[0], 405)
        self.assertIn('tandem:rounds_total{model_name="target"}', self.served.get("/metrics")[1])

    def test_the_chat_page_is_whole_and_stays_at_home(self):
        types = {"/": "text/html", "/chat.js": "text/javascript", "/chat.css": "text/css"}
        for path, of_type in types.items():
            head, body = head_and_body(self.served.raw(
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()))
            self.assertTrue(head.startswith("HTTP/1.1 200 OK"), head)
            self.assertIn(f"Content-Type: {of_type}; charset=utf-8", head)
            self.assertIn("Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
                          "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                          "frame-ancestors 'none'", head)
            self.assertIn("X-Content-Type-Options: nosniff", head)
            self.assertIn("Cache-Control: no-store", head)
            self.assertEqual(body.decode(), (ROOT / "orchestrator/openai/page" / (path[1:] or "chat.html")).read_text())
            self.assertNotRegex(body.decode(), r"https?://|(src|href)=.?//")
        self.assertEqual(self.served.post("/", {})[0], 405)

    def test_text_runs_tell_what_was_drafted(self):
        body = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0, "tandem": {"text_runs": True}}
        (choice,) = self.served.post("/v1/completions", body)[1]["choices"]
        runs = choice["text_runs"]
        self.assertEqual("".join(run["text"] for run in runs), choice["text"])
        self.assertEqual({run["accepted"] for run in runs}, {False, True})
        body["tandem"]["draft_tokens"] = 0
        (alone,) = self.served.post("/v1/completions", body)[1]["choices"]
        self.assertEqual(alone["text_runs"], [{"text": choice["text"], "accepted": False}])

    def test_tokens_of_a_text_and_back(self):
        status, answer = self.served.post("/tokenize", {"model": "target", "prompt": PROMPT, "return_token_strs": True})
        self.assertEqual((status, answer["count"]), (200, len(answer["tokens"])))
        self.assertEqual("".join(answer["token_strs"]), PROMPT)
        completion = self.served.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1})[1]
        self.assertEqual(completion["usage"]["prompt_tokens"], answer["count"])
        self.assertEqual(self.served.post("/detokenize", {"tokens": answer["tokens"]}), (200, {"prompt": PROMPT}))
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}]
        status, answer = self.served.post("/tokenize", {"messages": messages, "return_token_strs": True})
        self.assertEqual(status, 200, answer)
        self.assertIn(PROMPT, "".join(answer["token_strs"]))
        chat = self.served.post("/v1/chat/completions", {"messages": messages, "max_completion_tokens": 1})[1]
        self.assertEqual(chat["usage"]["prompt_tokens"], answer["count"])
        for path, body, param in (("/tokenize", {}, "prompt"), ("/tokenize", {"messages": []}, "messages"),
                                  ("/tokenize", {"messages": messages, "prompt": "x"}, "prompt"),
                                  ("/tokenize", {"messages": messages, "add_special_tokens": True},
                                   "add_special_tokens"),
                                  ("/tokenize", {"messages": [{"role": "nobody", "content": "x"}]},
                                   "messages[0].role"), ("/tokenize", {"prompt": "x" * 10**6}, "prompt"),
                                  ("/tokenize", {"prompt": "x", "more": 1}, "more"),
                                  ("/detokenize", {"tokens": [10**9]}, "tokens"),
                                  ("/detokenize", {"tokens": "x"}, "tokens")):
            status, answer = self.served.post(path, body)
            self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
        self.assertEqual(self.served.post("/tokenize", {"prompt": "x", "model": "other"})[0], 404)

    def test_another_chat_template(self):
        with tempfile.TemporaryDirectory(prefix="tandem-http.") as folder:
            file = pathlib.Path(folder) / "own.jinja"
            file.write_text("{{ messages[0].content }} {{ tools|tojson }}{% if foo %}{{ foo|nofilter }}{% endif %}")
            tool = {"type": "function", "function": {"name": "f", "description": "x"}}
            body = {"messages": [{"role": "user", "content": "hi"}], "tools": [tool], "return_token_strs": True}
            with Served(f"--chat-template={file}") as served:
                status, answer = served.post("/tokenize", body)
                self.assertEqual((status, "".join(answer["token_strs"])), (200, f"hi {json.dumps([tool])}"))
                status, answer = served.post("/tokenize", {**body, "chat_template_kwargs": {"foo": "1"}})
                self.assertEqual((status, answer["error"]["param"]), (501, None), answer)
                self.assertIn("nofilter", answer["error"]["message"])
                self.assertIn("nofilter", served.process.output())
            for bad, why in ((file.with_name("none"), "No such file or directory"), (folder, "not a regular file")):
                done = subprocess.run(
                    [BINARIES / "tandem-orchestrator", "--target=127.0.0.1:1", f"--tokenizer={ROOT}/demo/target",
                     "--listen=127.0.0.1:0", f"--chat-template={bad}"], capture_output=True, text=True, timeout=60)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(f"{bad}: {why}", done.stderr)

    def test_a_model_whose_name_has_a_slash_is_found(self):
        with Served("--served-model-name=OWNER/NAME") as served:
            for path in ("/v1/models/OWNER%2FNAME", "/v1/models/OWNER%2fNAME", "/v1/models/OWNER/NAME"):
                self.assertEqual(served.get(path)[1]["id"], "OWNER/NAME")
            self.assertEqual(served.get("/v1/models/OWNER%252FNAME")[0], 404)
            self.assertEqual(served.get("/v1/models/%zz")[0], 400)

    def test_a_deadline_is_kept(self):
        error = self.wrong({"prompt": PROMPT, "max_tokens": 200, "n": 16, "ignore_eos": True,
                            "tandem": {"timeout": 0.001}}, 504)
        self.assertEqual(error["type"], "timeout_error")

    def test_traceparent_and_the_log_line_are_those_of_grpc(self):
        status, answer = self.served.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 2})
        self.assertEqual(status, 200)
        line = eventually(lambda: self.line(answer["tandem"]["request_id"]))
        self.assertIn("status=OK", line)
        self.assertIn("output_tokens=2", line)

    def test_a_client_names_its_request_and_its_user(self):
        for stream in (False, True):
            answer = self.served.raw(request("/v1/completions", {
                "prompt": PROMPT, "max_tokens": 1, "user": "some body", "stream": stream},
                f"X-Request-Id: mine-{stream}", "Connection: close"))
            head, body = head_and_body(answer)
            self.assertIn(f"X-Request-Id: mine-{stream}\r\n", head + "\r\n")
            self.assertIn(f'"id":"cmpl-mine-{stream}"'.encode(), body)
            self.assertIn(' user="some body"', eventually(lambda: self.line(f"mine-{stream}")))
        answer = self.served.raw(request("/v1/completions", {"prompt": PROMPT}, "X-Request-Id: " + "x" * 129,
                                         "Connection: close"))
        self.assertTrue(answer.startswith(b"HTTP/1.1 400"), answer)
        self.assertEqual(self.wrong({"prompt": PROMPT, "user": "x" * 257})["param"], "user")

    def line(self, request_id):
        lines = [line for line in self.served.process.output().splitlines() if f" id={request_id} " in line]
        assert lines, "no line yet"
        return lines[0]


@unittest.skipUnless(shutil.which("curl"), "no curl; scripts/setup installs it")
class Curl(unittest.TestCase):
    """As people try it by hand."""

    TEXT = {"prompt": PROMPT, "max_tokens": 24, "seed": 7, "temperature": 0.8, "return_token_ids": True}

    served = SERVED

    def words(self, path, *words):
        return ["curl", "-sS", "-N", "--max-time", "60", "-w", "\n%{http_code}", *words, self.served.url(path)]

    def curl(self, path, *words, data=None):
        """The status and the body."""
        if data is not None:
            words = ("--data-binary", "@-", "-H", "Content-Type: application/json", *words)
        done = subprocess.run(self.words(path, *words), input=data, capture_output=True, check=False)
        body, _, code = done.stdout.decode().rpartition("\n")
        return int(code), body

    def test_a_text_is_that_of_grpc_and_so_is_its_stream(self):
        there = self.served.grpc(f"--prompt={PROMPT}", "--max-tokens=24", "--seed=7", "--temperature=0.8")
        code, whole = self.curl("/v1/completions", data=json.dumps(self.TEXT).encode())
        (choice,) = json.loads(whole)["choices"]
        self.assertEqual((code, choice["token_ids"], choice["text"]), (200, there["token_ids"], there["text"]))
        streamed = json.dumps({**self.TEXT, "stream": True}).encode()
        for words in ((), ("-H", "Transfer-Encoding: chunked"), ("-H", "Expect: 100-continue"), ("--http1.0",)):
            code, events = self.curl("/v1/completions", *words, data=streamed)
            lines = [line.removeprefix("data: ") for line in events.split("\n") if line]
            self.assertEqual((code, lines[-1]), (200, "[DONE]"))
            choices = [choice for line in lines[:-1] for choice in json.loads(line)["choices"]]
            self.assertEqual("".join(choice["text"] for choice in choices), there["text"])
            self.assertEqual([one for choice in choices for one in choice.get("token_ids") or ()], there["token_ids"])

    def test_who_leaves_in_mid_stream_frees_everything_within_a_round(self):
        texts, length = 8, 900
        body = json.dumps({"prompt": PROMPT, "max_tokens": length, "n": texts, "ignore_eos": True, "stream": True})
        with subprocess.Popen(self.words("/v1/completions", "--json", body), stdout=subprocess.PIPE) as process:
            self.assertTrue(process.stdout.readline().startswith(b"data: "))
            process.kill()
        before = self.served.metric("tandem:rounds_total")
        eventually(self.served.check_idle)
        self.assertLess(self.served.metric("tandem:rounds_total") - before, 10 * texts, "not to their ends")


class Guarded(unittest.TestCase):
    def test_names_of_the_flag_are_served(self):
        with Served("--http-allowed-hosts=llm.example,chat.example") as served:
            body = {"prompt": PROMPT}
            for headers, status in (
                    ({"Host": "llm.example:80"}, 200), ({"Host": "evil.example"}, 403),
                    ({"Origin": "https://chat.example"}, 200), ({"Origin": "https://evil.example"}, 403)):
                with self.subTest(headers):
                    self.assertEqual(served.post("/tokenize", body, headers)[0], status)

    def test_tokens_guard_all_but_health_version_and_the_page(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = pathlib.Path(folder) / "tokens"
            tokens.write_text("right-4f1c9ab2d07e6653\n")
            with Served(f"--token-file={tokens}") as served:
                right = {"Authorization": "Bearer right-4f1c9ab2d07e6653"}
                wrong = {"Authorization": "Bearer wrong-4f1c9ab2d07e6653"}
                body = {"prompt": PROMPT, "max_tokens": 1}
                self.assertEqual(served.get("/health")[0], 200)
                self.assertEqual(served.get("/version")[0], 200)
                for path in ("/", "/chat.js", "/chat.css"):
                    self.assertEqual(served.get(path)[0], 200)
                for path in ("/metrics", "/v1/models"):
                    self.assertEqual(served.get(path)[0], 401)
                    self.assertEqual(served.get(path, right)[0], 200)
                for headers in ({}, wrong):
                    status, answer = served.post("/v1/completions", body, headers)
                    self.assertEqual((status, answer["error"]["code"]), (401, "invalid_api_key"))
                self.assertEqual(served.post("/v1/completions", body, right)[0], 200)
                self.assertNotIn("-4f1c9ab2d07e6653", served.process.output())

    def test_callers_are_told_nothing_of_peers(self):
        """The log has the address of the target that is not there; no answer has, over either
        front."""
        with tempfile.TemporaryDirectory() as folder:
            process = services.Process(
                [BINARIES / "tandem-orchestrator", f"--tokenizer={ROOT}/demo/target", "--target=127.0.0.1:9",
                 "--listen=127.0.0.1:0", f"--port-file={folder}/grpc", "--http-listen=127.0.0.1:0",
                 f"--http-port-file={folder}/http"], folder, "orchestrator")
            try:
                def port(name):
                    process.check_alive()
                    path = pathlib.Path(folder) / name
                    assert path.exists() and path.read_text().strip(), f"no {name} port yet"
                    return path.read_text().strip()

                def check_lost():
                    assert "127.0.0.1:9" in process.output(), "the log does not say it yet"
                eventually(check_lost)
                served = Address(eventually(lambda: port("http")))
                for status, answer in (served.get("/health"),
                                       served.post("/v1/completions", {"prompt": PROMPT}),
                                       served.post("/v1/chat/completions", {"messages": [
                                           {"role": "user", "content": PROMPT}]})):
                    self.assertEqual(status, 503, answer)
                    self.assertIn("no target is ready", answer["error"]["message"])
                    self.assertNotIn("127.0.0.1", json.dumps(answer))
                done = subprocess.run(
                    [str(BINARIES / "tandem"), "generate", f"--orchestrator=127.0.0.1:{eventually(lambda: port('grpc'))}",
                     PROMPT, "--format=json"], capture_output=True, text=True, timeout=60, check=False)
                self.assertIn("no target is ready", done.stderr)
                self.assertNotIn("127.0.0.1:9", done.stdout + done.stderr)
                self.assertRegex(process.output(), r" request .*message=.*127\.0\.0\.1:9")
            finally:
                process.stop()

    def test_a_drain_lets_streams_end_and_refuses_others(self):
        with Served("--grace=60s") as served:
            with socket.create_connection(("127.0.0.1", served.http_port), timeout=60) as connection:
                connection.sendall(request("/v1/completions", {
                    "prompt": PROMPT, "max_tokens": 200, "ignore_eos": True, "stream": True}))
                answer = connection.recv(4096)
                served.process.process.send_signal(signal.SIGTERM)
                while more := connection.recv(65536):
                    answer += more
            self.assertIn(b"data: [DONE]", answer)
            self.assertTrue(answer.endswith(b"0\r\n\r\n"))
            self.assertEqual(served.process.process.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
