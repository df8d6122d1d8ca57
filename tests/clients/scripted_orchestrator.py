"""An orchestrator that says what a test wants, and breaks off where a test wants. Import it after
package.py."""

import concurrent.futures
import threading

import grpc
from tandem_client import v1
from tandem_client.v1 import generation_pb2_grpc

MAX_TOKENS = 12
MODEL = "model-1"


def text_of(ids):
    return "".join(chr(ord("a") + i % 26) for i in ids)


def ids_of(sample):
    """All that sample `sample` ever says."""
    return [26 * sample + i for i in range(MAX_TOKENS)]


def started(request, model=MODEL):
    return v1.GenerateReply(started=v1.Started(
        request_id="r", seed=request.seed or 77, rule=request.speculation.rule or v1.RULE_COUPLED, exact=True,
        target_model_id=model, prompt_tokens=4, max_tokens=request.max_tokens or MAX_TOKENS))


def delta(sample, ids, text=None):
    return v1.GenerateReply(delta=v1.Delta(
        sample_index=sample, token_ids=ids, text=text_of(ids) if text is None else text))


def last(ends):
    """`ends`: of each sample, how many ids this call sent."""
    samples = [v1.SampleEnd(sample_index=i, finish_reason=v1.FINISH_REASON_LENGTH, completion_tokens=count,
                            speculation=v1.AcceptanceRecord(rounds=count)) for i, count in enumerate(ends)]
    record = v1.AcceptanceRecord(
        rule=v1.RULE_COUPLED, exact=True, rounds=sum(ends), draft_tokens=10, accepted_tokens=3, rejected_rounds=1,
        accepted_histogram=[1] * len(ends), rounds_without_draft=[v1.CausedRounds(cause="first-round", rounds=1)],
        length=v1.LengthRecord(chosen_histogram=[1] * len(ends), alpha=0.5,
                               zero_rounds=[v1.CausedRounds(cause="load", rounds=1)]))
    return v1.GenerateReply(last=v1.Last(
        finish_reason=v1.FINISH_REASON_LENGTH, usage=v1.Usage(prompt_tokens=4, completion_tokens=sum(ends)),
        speculation=record, samples=samples, timing=v1.Timing(total_us=5)))


def speaks(before=None, code=grpc.StatusCode.UNAVAILABLE, model=MODEL, pair=2):
    """Texts in deltas of `pair` ids, of all samples round-robin; it ends with `code` after `before`
    deltas."""
    def call(request, context):
        yield started(request, model)
        count = max(1, request.samples)
        rests = [ids_of(request.first_sample + i)[len(request.output_prefix_ids):] for i in range(count)]
        deltas = [delta(i, rest[at:at + pair]) for at in range(0, MAX_TOKENS, pair)
                  for i, rest in enumerate(rests) if rest[at:at + pair]]
        yield from deltas[:before]
        if before is not None:
            context.abort(code, "lost")
        yield last([len(rest) for rest in rests])
    return call


def fails(code, message="no", metadata=()):
    def call(request, context):
        context.set_trailing_metadata(metadata)
        context.abort(code, message)
        yield  # a generator
    return call


def says(*replies, then=None):
    """These, and then it goes on like `then`, or waits until the client has gone."""
    def call(request, context):
        yield started(request)
        yield from replies
        if then is not None:
            return (yield from then(request, context))
        gone = threading.Event()
        if context.add_callback(gone.set):
            gone.wait(60)
    return call


class ScriptedOrchestrator(generation_pb2_grpc.GenerationServicer):
    """Each call is answered by the next of `calls`; the last one answers all that follow. A context
    manager."""

    def __init__(self, *calls):
        self.calls = list(calls)
        self.requests, self.metadata = [], []
        self.gone = threading.Semaphore(0)  # released when a call is over
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
        generation_pb2_grpc.add_GenerationServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def Generate(self, request, context):
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        context.add_callback(self.gone.release)
        call = self.calls[0] if len(self.calls) == 1 else self.calls.pop(0)
        return call(request, context)

    def Describe(self, request, context):
        return v1.DescribeReply(welcome=v1.Welcome(model_id=MODEL))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()
