"""The Python package: what is in it, and what the client makes of an orchestrator's good and bad
days."""

import asyncio
import ctypes
import gc
import os
import pathlib
import re
import socketserver
import tempfile
import threading
import time
import unittest

from package import PACKAGE, PROJECT, services
import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
import tandem_client
from tandem_client import AsyncClient, Client, v1
from scripted_orchestrator import (
    MAX_TOKENS, ScriptedOrchestrator, delta, fails, ids_of, last, says, speaks, started, text_of)

Code = grpc.StatusCode
tandem_client._session._FIRST_WAIT = 0.01  # nobody needs to be given time here


class PackageTest(unittest.TestCase):
    def test_the_source_distribution_has_the_public_protos_and_nothing_generated(self):
        names = PACKAGE.sdist_names
        self.assertIn("proto/tandem/v1/generation.proto", names)
        self.assertIn("LICENSE", names)
        self.assertIn("examples/stream.py", names)
        self.assertFalse([name for name in names if "_pb2" in name or "__pycache__" in name])
        self.assertFalse([name for name in names if "target.proto" in name or "draft.proto" in name],
                         "of the services among each other")

    def test_the_wheel_has_stubs_and_types(self):
        names = PACKAGE.wheel_names
        for name in ("py.typed", "_session.py", "v1/__init__.py", "v1/generation_pb2.py", "v1/generation_pb2.pyi",
                     "v1/generation_pb2_grpc.py"):
            self.assertIn(f"tandem_client/{name}", names)
        self.assertTrue(PACKAGE.wheel.name.endswith("-py3-none-any.whl"))
        self.assertEqual({name.split("/")[0] for name in names if ".dist-info" not in name}, {"tandem_client"},
                         "no other top-level module")
        self.assertFalse((PROJECT / "src/tandem_client/v1").exists(), "nothing is left in the tree")

    def test_its_version_is_tandems_and_its_needs_follow_what_generated_it(self):
        metadata = PACKAGE.metadata()
        (version,) = re.findall(r"^project\(tandem VERSION (\S+)", (services.ROOT / "CMakeLists.txt").read_text(),
                                re.MULTILINE)
        self.assertIn(f"\nVersion: {version}\n", metadata)
        (generated_by,) = re.findall(r"Protobuf Python Version: (\S+)",
                                     (PACKAGE.site / "tandem_client/v1/generation_pb2.py").read_text())
        needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: protobuf")]
        self.assertTrue(any(f">={generated_by}" in line for line in needs), needs)


class RequestTest(unittest.TestCase):
    def sent(self, prompt="Hello", **options):
        with ScriptedOrchestrator(speaks()) as service, Client(service.address) as client:
            client.generate(prompt, **options)
            return service.requests[0]

    def test_every_option_arrives(self):
        request = self.sent(
            max_tokens=9, stop="x", stop_token_ids=[5], ignore_eos=True, min_tokens=2, samples=2, first_sample=3,
            seed=2**64 - 1, temperature=0.5, top_k=3, top_p=0.5, min_p=0.25, repetition_penalty=1.5,
            presence_penalty=0.5, frequency_penalty=-0.5, logit_bias={7: -1}, banned_token_ids=[1, 2],
            allowed_token_ids=[3], logprobs=0, processed_logprobs=True, prompt_logprobs=True, round_records=True,
            rule="lenient", leniency=0.5, draft_tokens=4, drafter="model", proposal="greedy", draft_temperature=0.75,
            draft_min_confidence=0,
            priority=2, cache_scope="me", add_special_tokens=False, parse_special_tokens=False, request_id="mine",
            user="somebody", text_runs=True)
        self.assertEqual(request, v1.GenerateRequest(
            text="Hello", max_tokens=9, stop=v1.StopRules(strings=["x"], token_ids=[5], ignore_eos=True), samples=2,
            first_sample=3, seed=2**64 - 1,
            sampling=v1.SamplingOptions(
                temperature=0.5, top_k=3, top_p=0.5, min_p=0.25, min_tokens=2, repetition_penalty=1.5,
                presence_penalty=0.5, frequency_penalty=-0.5, logit_bias=[v1.LogitBias(token=7, bias=-1)],
                banned_token_ids=[1, 2], allowed_token_ids=[3]),
            logprobs=v1.LogprobOptions(top=0, processed=True, prompt=True), round_records=True,
            speculation=v1.SpeculationOptions(
                rule=v1.RULE_LENIENT, leniency=0.5, fixed=4, drafter="model", proposal=v1.PROPOSAL_GREEDY,
                draft_temperature=0.75, draft_min_confidence=0),
            priority=2, cache_scope=b"me", add_special_tokens=False, parse_special_tokens=False, request_id="mine",
            user="somebody", token_bytes=True, text_runs=True))

    def test_what_is_not_said_is_absent(self):
        request = self.sent([4, 5], seed=None)
        self.assertEqual(list(request.ids.ids), [4, 5])
        self.assertFalse(request.HasField("seed") or request.HasField("logprobs"))
        self.assertFalse(request.sampling.HasField("temperature"))
        self.assertTrue(request.speculation.auto)
        self.assertFalse(request.token_bytes)
        self.assertFalse(self.sent(logprobs=1, token_bytes=False).token_bytes)
        self.assertTrue(self.sent(token_bytes=True).token_bytes)
        self.assertEqual(list(self.sent([4], output_prefix_ids=[1, 2]).output_prefix_ids), [1, 2])

    def test_a_conversation(self):
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
        request = self.sent(
            [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": None, "tool_calls": [call]},
             {"role": "tool", "content": "2", "tool_call_id": "c"}],
            tools=[{"type": "function"}], template_arguments={"enable_thinking": False}, add_generation_prompt=False)
        self.assertEqual(request.conversation, v1.Conversation(
            messages=[
                v1.ChatMessage(role="user", content="Hello"),
                v1.ChatMessage(role="assistant",
                               tool_calls=[v1.ToolCall(id="c", name="f", arguments='{"x": 1}')]),
                v1.ChatMessage(role="tool", content="2", tool_call_id="c")],
            tools=['{"type": "function"}'], template_arguments='{"enable_thinking": false}',
            add_generation_prompt=False))

    def test_messages_of_the_openai_package_are_those_of_its_dictionaries(self):
        """Objects with model_dump, at any level; members that are None; contents in parts; calls in
        pieces."""
        class Dumped:
            def __init__(self, **members):
                self.members = members

            def model_dump(self):
                return self.members
        function = {"name": "f", "arguments": '{"x": 1}'}
        none = dict.fromkeys(("refusal", "annotations", "audio", "function_call", "tool_calls", "name"))
        parts = [{"type": "text", "text": "one"}, Dumped(type="text", text="two", annotations=None)]
        request = self.sent([
            {"role": "system", "content": parts},
            Dumped(**{**none, "role": "assistant", "content": None, "annotations": [],
                      "tool_calls": [{"id": "c", "type": "function", "function": function, "index": 0}]}),
            {"role": "assistant", "refusal": None, "tool_calls": (Dumped(
                id="d", type="function", function=Dumped(name="g", arguments="")),)},
            {**none, "role": "user", "content": [], "name": "Bo"}])
        call = v1.ToolCall(id="c", name="f", arguments='{"x": 1}')
        self.assertEqual(request.conversation, v1.Conversation(messages=[
            v1.ChatMessage(role="system", content_parts=["one", "two"]),
            v1.ChatMessage(role="assistant", tool_calls=[call]),
            v1.ChatMessage(role="assistant", tool_calls=[v1.ToolCall(id="d", name="g", arguments="{}")]),
            v1.ChatMessage(role="user", content="", name="Bo")]))

    def test_what_a_message_cannot_have_is_named_by_its_path(self):
        client = Client("127.0.0.1:1")
        user = {"role": "user", "content": "x"}
        for error, said, message in (
                (ValueError, "refusal: is not supported", {**user, "refusal": "no"}),
                (ValueError, "audio: is not", {**user, "audio": {"id": "a"}}),
                (ValueError, "function_call: is not", {**user, "function_call": {"name": "f"}}),
                (TypeError, "contents: is unknown; did you mean 'content'", {**user, "contents": "y"}),
                (ValueError, "role: is required", {"content": "x"}),
                (TypeError, "role: must be a str, and is int", {"role": 1}),
                (TypeError, "content: must be a text or a list of parts, and is int", {"role": "user", "content": 1}),
                (TypeError, r"content\[0\]: must be a mapping", {"role": "user", "content": ["x"]}),
                (ValueError, r"content\[1\].type: is 'image_url'; only 'text' is",
                 {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "image_url"}]}),
                (ValueError, r"content\[0\].text: is required", {"role": "user", "content": [{"type": "text"}]}),
                (TypeError, "tool_calls: must be a list", {**user, "tool_calls": "f"}),
                (TypeError, r"tool_calls\[0\]: must be a mapping", {**user, "tool_calls": ["f"]}),
                (ValueError, r"tool_calls\[0\].type: is 'custom'", {**user, "tool_calls": [{"type": "custom"}]}),
                (ValueError, r"tool_calls\[0\].function.name: is required", {**user, "tool_calls": [{"id": "c"}]})):
            with self.subTest(message=message), self.assertRaisesRegex(error, rf"^messages\[1\]\.{said}"):
                client.stream([user, message])
        with self.assertRaisesRegex(TypeError, r"^messages\[1\]: must be a mapping"):
            client.stream([user, "x"])
        with self.assertRaisesRegex(TypeError, "a list of messages"):
            client.stream(user)
        with self.assertRaisesRegex(TypeError, r"^tools\[1\]: must be a mapping or a pydantic object, and is set"):
            client.stream([user], tools=[{}, {"function": {1}}])

    def test_what_cannot_be_sent_is_named(self):
        client = Client("127.0.0.1:1")
        for error, word, prompt, options in (
                (TypeError, "temprature.*mean 'temperature'", "x", {"temprature": 1}),
                (ValueError, "rule", "x", {"rule": "fast"}),
                (ValueError, "rule.*mean 'speculative'", "x", {"rule": "speculativ"}),
                (ValueError, "draft_tokens", "x", {"draft_tokens": "many"}), (ValueError, "seed", "x", {"seed": -1}),
                (TypeError, "temperature", "x", {"temperature": "hot"}), (ValueError, "tools", "x", {"tools": [{}]}),
                (ValueError, "prompt_logprobs", "x", {"prompt_logprobs": True}), (ValueError, "empty", [], {}),
                (TypeError, "bytes", b"x", {}), (TypeError, "colour", [{"role": "user", "colour": "red"}], {})):
            with self.subTest(options=options), self.assertRaisesRegex(error, word):
                client.stream(prompt, **options)

    def test_tokens_go_with_each_call_and_never_far_in_plaintext(self):
        with tempfile.TemporaryDirectory() as folder, ScriptedOrchestrator(speaks()) as service:
            file = pathlib.Path(folder) / "token"
            file.write_text("# mine\nfirst\n")
            with Client(service.address, token_file=file) as client:
                client.generate("x", traceparent="00-1-2-03")
                file.write_text("second\n")
                client.generate("x")
            with Client(service.address, token="third") as client:
                client.generate("x")
        self.assertEqual([one.get("authorization") for one in service.metadata],
                         ["Bearer first", "Bearer second", "Bearer third"])
        self.assertEqual([one.get("traceparent") for one in service.metadata], ["00-1-2-03", None, None])
        for address in ("localhost:1", "127.0.0.2:1", "[::1]:1", "ipv4:127.0.0.1:1,127.0.0.1:2", "unix:/x",
                        "dns:///localhost:1", "ipv6:[::1]:1"):
            Client(address, token="t").close()
        for address in ("10.0.0.7:1", "example.org:1", "ipv4:127.0.0.1:1,10.0.0.7:1", "127.0.0.1.example.org:1"):
            with self.subTest(address), self.assertRaisesRegex(ValueError, "plaintext"):
                Client(address, token="t")


class ResumeTest(unittest.TestCase):
    def run_it(self, *calls, options=None, patience=30.0):
        """The result and the requests, of the client that blocks and the same of asyncio's."""
        results = []
        for kind in ("sync", "asyncio"):
            with self.subTest(kind), ScriptedOrchestrator(*calls) as service:
                got = []
                if kind == "sync":
                    with Client(service.address, patience=patience) as client:
                        stream = client.stream("x", **(options or {}))
                        got += stream
                        results.append((stream.result(), service.requests))
                else:
                    async def ask():
                        async with AsyncClient(service.address, patience=patience) as client:
                            stream = client.stream("x", **(options or {}))
                            async for one in stream:
                                got.append(one)
                            results.append((await stream.result(), service.requests))
                    asyncio.run(ask())
                result = results[-1][0]
                for sample in result.samples:
                    mine = [one for one in got if one.sample == sample.index]
                    self.assertEqual("".join(one.text for one in mine), sample.text)
                    self.assertEqual(sum((one.token_ids for one in mine), ()), sample.token_ids)
        return results

    def test_a_text_goes_on_wherever_it_broke_off(self):
        for before in range(7):
            for result, requests in self.run_it(speaks(before), speaks(before=1, code=Code.CANCELLED), speaks()):
                self.assertEqual(result.token_ids, tuple(ids_of(0)))
                self.assertEqual(result.text, text_of(ids_of(0)))
                self.assertEqual(result.finish_reason, "length")
                if before == 6:  # all ids were there
                    self.assertEqual((len(requests), result.resumed), (1, 1))
                    continue
                self.assertEqual((len(requests), result.resumed), (2 if before == 5 else 3, 2))
                for request in requests[1:]:
                    self.assertEqual((request.seed, request.speculation.rule, request.max_tokens, request.samples),
                                     (77, v1.RULE_COUPLED, MAX_TOKENS, 1))
                self.assertEqual(list(requests[1].output_prefix_ids), ids_of(0)[:2 * before])

    def test_what_the_caller_asked_for_is_kept(self):
        options = {"seed": 5, "rule": "block", "output_prefix_ids": ids_of(0)[:2], "temperature": 0.5, "stop": "zz"}
        for result, requests in self.run_it(speaks(2), speaks(), options=options):
            self.assertEqual(result.token_ids, tuple(ids_of(0)[2:]))
            first, second = requests
            self.assertEqual(list(second.output_prefix_ids), ids_of(0)[:6])
            self.assertEqual((second.seed, second.speculation.rule), (5, v1.RULE_BLOCK))
            self.assertEqual((second.sampling, second.stop), (first.sampling, first.stop))

    def test_each_of_several_texts_goes_on(self):
        for before in (1, 4, 8, 17):
            for result, requests in self.run_it(speaks(before), speaks(), options={"samples": 3, "first_sample": 10}):
                self.assertEqual([sample.token_ids for sample in result.samples],
                                 [tuple(ids_of(10 + i)) for i in range(3)])
                self.assertEqual(result.usage.completion_tokens, 3 * MAX_TOKENS)
                self.assertTrue({request.first_sample for request in requests[1:]} <= {10, 11, 12})
                self.assertTrue(all(request.samples == 1 for request in requests[1:]))

    def test_a_text_that_had_ended_is_left_as_it_is(self):
        def broken(request, context):
            yield started(request)
            yield delta(0, ids_of(0)[:3])
            context.abort(Code.UNAVAILABLE, "lost")
        ended = fails(Code.INVALID_ARGUMENT, "output_prefix_ids: the text ends at index 2 (id 2): nothing follows")
        for result, requests in self.run_it(broken, ended):
            self.assertEqual(len(requests), 2)
            self.assertEqual((result.token_ids, result.finish_reason), (tuple(ids_of(0)[:3]), "stop"))

    def test_records_add_up(self):
        def two_of_three(request, context):
            yield started(request)
            yield delta(0, ids_of(0))
            context.abort(Code.UNAVAILABLE, "lost")
        for result, _ in self.run_it(two_of_three, speaks(), options={"samples": 3}):
            record = result.record  # of the two that a call was needed for
            self.assertEqual((record.rounds, record.draft_tokens, record.accepted_tokens), (2 * MAX_TOKENS, 20, 6))
            self.assertEqual(list(record.accepted_histogram), [2])
            self.assertEqual([(one.cause, one.rounds) for one in record.rounds_without_draft], [("first-round", 2)])
            self.assertEqual(list(record.length.chosen_histogram), [2])
            self.assertEqual([(one.cause, one.rounds) for one in record.length.zero_rounds], [("load", 2)])
            self.assertEqual((record.length.alpha, record.length.HasField("draft_token_us")), (0.5, False))
            self.assertEqual((record.rule, record.exact), (v1.RULE_COUPLED, True))
            self.assertAlmostEqual(result.acceptance_rate, 6 / 8)
            self.assertEqual(result.samples[2].record.rounds, MAX_TOKENS)

    def test_log_probabilities_of_the_prompt_come_once(self):
        def part(position, ids):
            return v1.GenerateReply(prompt_logprobs=v1.PromptLogprobs(
                first_position=position, token_ids=ids, logprobs=[-float(i) for i in ids]))
        lost = fails(Code.UNAVAILABLE)
        whole = [part(1, [1]), part(2, [2, 3])]
        options = {"logprobs": 0, "prompt_logprobs": True}
        for calls, asked_again in (((says(whole[0], then=lost), says(*whole, then=speaks())), True),
                                   ((says(*whole, then=lost), speaks()), False)):
            calls = [self.without_second_start(call) for call in calls]
            for result, requests in self.run_it(*calls, options=options):
                self.assertEqual([one.token_id for one in result.prompt_logprobs], [1, 2, 3])
                self.assertEqual([one.logprob for one in result.prompt_logprobs], [-1, -2, -3])
                self.assertEqual(requests[1].logprobs.prompt, asked_again)

    @staticmethod
    def without_second_start(call):
        def answer(request, context):
            for i, reply in enumerate(call(request, context)):
                if i == 0 or not reply.HasField("started"):
                    yield reply
        return answer

    def fails_with(self, kind, *calls, **client_options):
        options = client_options.pop("options", {})
        with ScriptedOrchestrator(*calls) as service:
            with Client(service.address, **client_options) as client, self.assertRaises(kind) as raised:
                client.generate("x", **options)

            async def ask():
                async with AsyncClient(service.address, **client_options) as client:
                    with self.assertRaises(kind):
                        await client.generate("x", **options)
            if len(calls) == 1:
                asyncio.run(ask())
            return raised.exception, service.requests

    def test_another_model_does_not_go_on_with_it(self):
        error, _ = self.fails_with(tandem_client.ModelChanged, speaks(1), speaks(model="model-2"))
        self.assertEqual(error.partial.token_ids, tuple(ids_of(0)[:2]))

    def test_it_gives_up_when_its_patience_ends(self):
        began = time.monotonic()
        error, requests = self.fails_with(tandem_client.Unavailable, speaks(1), fails(Code.UNAVAILABLE), patience=0.3)
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(error.partial.token_ids, tuple(ids_of(0)[:2]))
        self.assertIsNone(error.partial.finish_reason)
        self.assertGreaterEqual(len(requests), 2)
        _, requests = self.fails_with(tandem_client.Unavailable, speaks(1), speaks(), patience=0)
        self.assertEqual(len(requests), 1)

    def test_other_failures_are_not_tried_again(self):
        for code, kind in ((Code.INTERNAL, tandem_client.InternalError), (Code.ABORTED, tandem_client.SlowReader),
                           (Code.RESOURCE_EXHAUSTED, tandem_client.Busy)):
            error, requests = self.fails_with(kind, speaks(1, code=code), speaks())
            self.assertEqual((len(requests), error.status), (1, code))
            self.assertEqual(error.partial.token_ids, tuple(ids_of(0)[:2]))

    def test_what_failed_before_it_began_is_sent_again_by_grpc(self):
        for result, requests in self.run_it(fails(Code.UNAVAILABLE), fails(Code.CANCELLED), speaks()):
            self.assertEqual((len(requests), result.resumed), (3, 0))

    def test_a_timeout_counts_for_all_calls_together(self):
        began = time.monotonic()
        error, _ = self.fails_with(tandem_client.DeadlineExceeded, speaks(1), says(), options={"timeout": 0.5})
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual(error.partial.token_ids, tuple(ids_of(0)[:2]))


class EndsTest(unittest.TestCase):
    def test_errors_are_told_apart(self):
        for code, kind in ((Code.INVALID_ARGUMENT, tandem_client.InvalidRequest),
                           (Code.UNAUTHENTICATED, tandem_client.Unauthenticated),
                           (Code.RESOURCE_EXHAUSTED, tandem_client.Busy), (Code.DATA_LOSS, tandem_client.InternalError),
                           (Code.DEADLINE_EXCEEDED, tandem_client.DeadlineExceeded)):
            with ScriptedOrchestrator(fails(code, "temperature is 101")) as service, Client(service.address) as client:
                with self.assertRaisesRegex(kind, "temperature is 101") as raised:
                    client.generate("x")
                self.assertEqual((raised.exception.status, raised.exception.partial), (code, None))

    def test_a_request_that_is_too_large_is_not_to_be_sent_again(self):
        call = fails(Code.RESOURCE_EXHAUSTED, "Received message larger than max (33554433 vs. 33554432)")
        with ScriptedOrchestrator(call) as service, Client(service.address) as client:
            with self.assertRaisesRegex(tandem_client.InvalidRequest, "too large: .* vs. 33554432"):
                client.generate("x")

    def test_a_wrong_port_is_told(self):
        with ScriptedOrchestrator(fails(Code.UNIMPLEMENTED, "")) as service, Client(service.address) as client:
            with self.assertRaisesRegex(tandem_client.InvalidRequest, "take that of an orchestrator"):
                client.generate("x")
        class Port(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.recv(100)
                self.request.sendall(self.server.answer)

        for answer, what in ((b"HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1"),
                             (b"SSH-2.0-OpenSSH_9.2\r\n", "not speak HTTP/2")):
            with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Port) as server:
                server.answer = answer
                threading.Thread(target=server.serve_forever).start()
                with Client("127.0.0.1:%d" % server.server_address[1]) as client:
                    with self.assertRaisesRegex(tandem_client.Unavailable, what + ": take the .* gRPC port"):
                        client.generate("x", timeout=20)
                server.shutdown()

    def test_details_are_told(self):
        bad, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        bad.field_violations.add(field="sampling.temperature", description="too high")
        retry.retry_delay.FromMilliseconds(1500)
        status = status_pb2.Status(code=3, message="no")
        for detail in (bad, retry):
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        for data, fields, after in ((status.SerializeToString(), {"sampling.temperature": "too high"}, 1.5),
                                    (b"\xff\xff", {}, None)):
            call = fails(Code.INVALID_ARGUMENT, "no", (("grpc-status-details-bin", data),))
            with ScriptedOrchestrator(call) as service, Client(service.address) as client:
                with self.assertRaises(tandem_client.InvalidRequest) as raised:
                    client.generate("x")
            self.assertEqual((raised.exception.fields, raised.exception.retry_after), (fields, after))

    def test_answers_that_make_no_sense_are_refused(self):
        for replies in ((delta(1, [1]),), (v1.GenerateReply(delta=v1.Delta(token_ids=[1], logprobs=[-1, -2])),),
                        (v1.GenerateReply(delta=v1.Delta(token_ids=[1, 2], token_bytes=[b"a"])),),
                        (v1.GenerateReply(delta=v1.Delta(text="ab", text_runs=[v1.TextRun(bytes=1)])),), ()):
            def call(request, context, replies=replies):
                yield started(request)
                yield from replies
            with ScriptedOrchestrator(call) as service, Client(service.address) as client:
                with self.assertRaises(tandem_client.InternalError):
                    client.generate("x")

    def test_a_reply_of_a_newer_service_is_passed_over(self):
        newer = v1.GenerateReply.FromString(b"\xfa\x3f\x01x")  # field 1023
        with ScriptedOrchestrator(says(newer, delta(0, [1]), last([1]), then=lambda *_: iter(()))) as service:
            with Client(service.address) as client:
                self.assertEqual(client.generate("x").token_ids, (1,))

    def test_the_bytes_of_tokens_come_with_them(self):
        top = v1.TopLogprobs(tokens=[v1.TokenLogprob(token=9, logprob=-1, token_bytes=b"\xa4")])
        reply = v1.GenerateReply(delta=v1.Delta(
            token_ids=[7], logprobs=[-2], top_logprobs=[top], token_bytes=[b"\xc3"]))
        with ScriptedOrchestrator(says(reply, last([1]), then=lambda *_: iter(()))) as service:
            with Client(service.address) as client:
                stream = client.stream("x", logprobs=1)
                self.assertEqual(next(stream).token_bytes, (b"\xc3",))
                (token,) = stream.result().samples[0].logprobs
                self.assertEqual((token.token_id, token.token), (7, b"\xc3"))
                self.assertEqual((token.top[0].token_id, token.top[0].token), (9, b"\xa4"))
                self.assertEqual(stream.result().samples[0].token_bytes, (b"\xc3",))

    def test_what_was_drafted_is_told(self):
        def part(text, *runs):
            runs = [v1.TextRun(bytes=size, accepted=accepted) for size, accepted in runs]
            return v1.GenerateReply(delta=v1.Delta(text=text, token_ids=[1], text_runs=runs))
        replies = part("\u00e9a", (2, True), (1, False)), part(""), part("bc", (1, False), (1, True))
        with ScriptedOrchestrator(says(*replies, last([3]), then=lambda *_: iter(()))) as service:
            with Client(service.address) as client:
                stream = client.stream("x", text_runs=True)
                runs = [[(run.text, run.accepted) for run in delta.text_runs] for delta in stream]
                self.assertEqual(runs, [[("\u00e9", True), ("a", False)], [], [("b", False), ("c", True)]])
                self.assertEqual([(run.text, run.accepted) for run in stream.result().samples[0].text_runs],
                                 [("\u00e9", True), ("ab", False), ("c", True)])

    def test_a_stream_ends_however_it_is_left(self):
        with ScriptedOrchestrator(says(delta(0, [1]))) as service, Client(service.address) as client:
            with client.stream("x") as stream:
                self.assertEqual(next(stream).token_ids, (1,))
                self.assertEqual(stream.started.seed, 77)
            self.assertTrue(service.gone.acquire(timeout=30), "by its block")
            with self.assertRaises(tandem_client.Cancelled) as raised:
                stream.result()
            self.assertEqual(raised.exception.partial.token_ids, (1,))

            gc.disable()
            try:
                for _ in client.stream("x"):
                    break
                self.assertTrue(service.gone.acquire(timeout=30), "by being dropped")
            finally:
                gc.enable()

            stream = client.stream("x")
            next(stream)
            threading.Timer(0.05, stream.cancel).start()
            with self.assertRaises(tandem_client.Cancelled):
                next(stream)
            self.assertTrue(service.gone.acquire(timeout=30), "by another thread")

    def test_a_task_that_is_cancelled_ends_its_request(self):
        async def ask(address):
            async with AsyncClient(address) as client:
                stream = client.stream("x")
                self.assertEqual((await stream.__anext__()).token_ids, (1,))
                task = asyncio.ensure_future(stream.result())
                await asyncio.sleep(0.05)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                await asyncio.get_running_loop().run_in_executor(None, service.gone.acquire)
                async with client.stream("x") as stream:
                    await stream.__anext__()
                await asyncio.get_running_loop().run_in_executor(None, service.gone.acquire)
                with self.assertRaises(tandem_client.Cancelled):
                    await stream.result()
        with ScriptedOrchestrator(says(delta(0, [1]))) as service:
            asyncio.run(asyncio.wait_for(ask(service.address), 60))

    def test_describe(self):
        with ScriptedOrchestrator(speaks()) as service:
            with Client(service.address) as client:
                self.assertEqual(client.describe(timeout=10).welcome.model_id, "model-1")

            async def ask():
                async with AsyncClient(service.address) as client:
                    return await client.describe(timeout=10)
            self.assertEqual(asyncio.run(ask()).welcome.model_id, "model-1")
        with Client(service.address) as client, self.assertRaises(tandem_client.Unavailable):
            client.describe(timeout=10)

    def test_what_becomes_ids_is_a_text_or_a_conversation(self):
        with Client("127.0.0.1:1") as client:
            for error, word, prompt, options in (
                    (TypeError, "a text or a list", [4, 5], {}), (TypeError, "temperature", "x", {"temperature": 1}),
                    (ValueError, "tools", "x", {"tools": [{}]})):
                with self.assertRaisesRegex(error, word):
                    client.tokenize(prompt, **options)


class ProcessTest(unittest.TestCase):
    forks = []
    # Kept: it is registered for good
    on_fork = ctypes.CFUNCTYPE(None)(lambda: ProcessTest.forks.append(1))

    def test_programs_beside_a_client_start_without_a_fork(self):
        """A fork runs gRPC's handlers, which end the child now and then before it becomes the
        program."""
        # Where gRPC's handlers are: beneath Python's os.register_at_fork.
        getattr(ctypes.CDLL(None), "__register_atfork")(self.on_fork, None, None, None)
        with ScriptedOrchestrator(speaks()) as service, Client(service.address) as client:
            client.generate("x")
            with tempfile.TemporaryDirectory() as folder:
                process = services.Process(["sh", "-c", "echo $0 $$ $PPID", "a name"], folder, "sh")
                self.assertEqual(process.process.wait(), 0)
                self.assertEqual(process.output(), f"a name {process.process.pid} {os.getpid()}\n")
        self.assertEqual(self.forks, [])


if __name__ == "__main__":
    unittest.main()
