#include "orchestrator/trace/request_trace.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/instant.h"
#include "common/telemetry/attributes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/call_fixture.h"
#include "tests/orchestrator/harness/traced_loop.h"

namespace tandem::orchestrator {
namespace {

using testing::FakeSpan;
using testing::FakeTracer;
using testing::FakeValue;
using ::testing::HasSubstr;

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kParent = std::string("00-") + kTraceId + "-00f067aa0ba902b7-";

// A traced request, and what its target is told.
class Fixture {
 public:
  explicit Fixture(const GenerationRequest& request, const std::string& traceparent = "",
                   bool sample_roots = true)
      : whole(request, {}, [&](const testing::FakeClock& clock) {
          tracer = std::make_unique<FakeTracer>(clock, sample_roots);
          const std::vector<WatchRequest> watchers = {TraceRequests(*tracer)};
          return WatchAll(watchers, {clock.Now(), traceparent});
        }) {
    whole.harness.target(0).on_step = [this](const internal::v1::Step& step,
                                             internal::v1::Verdict&) {
      if (step.has_trace()) contexts.insert(step.trace().value());
      ++steps;
      return WireTarget::Do::kAnswer;
    };
  }

  void Run() {
    whole.Prepare();
    whole.harness.clock.Advance(absl::Milliseconds(3));
    whole.call->OnDecided(absl::OkStatus(), absl::Milliseconds(3));
    whole.Run();
  }
  // All of them, once the request is over.
  std::vector<FakeSpan> Spans() {
    whole.call = nullptr;
    return tracer->Finished();
  }

  std::unique_ptr<FakeTracer> tracer;
  CallFixture whole;
  std::set<std::string> contexts;  // that came with Steps
  int steps = 0;
};

GenerationRequest Request(uint32_t samples = 1) {
  GenerationRequest request = SmallRequest(0u, 1.0);
  request.rule = acceptance::Rule::kCoupled;
  request.id = "0123456789abcdef";
  request.samples = samples;
  return request;
}

FakeSpan Generate(const std::vector<FakeSpan>& spans) {
  for (const FakeSpan& span : spans) {
    if (span.name == telemetry::kGenerateSpan) return span;
  }
  ADD_FAILURE() << "there is none";
  return {};
}

TEST(RequestTrace, TheRequestAndItsRoundsAreOneTrace) {
  GenerationRequest request = Request();
  request.user = "somebody";
  Fixture f(request);
  const concurrency::Instant arrived = f.whole.arrived;
  f.Run();
  const std::vector<FakeSpan> spans = f.Spans();
  const FakeSpan generate = Generate(spans);
  EXPECT_EQ(generate.kind, telemetry::SpanKind::kServer);
  EXPECT_FALSE(generate.parent.valid());
  EXPECT_EQ(generate.began, arrived);
  EXPECT_EQ(generate.text(telemetry::kRequestId), "0123456789abcdef");
  EXPECT_EQ(generate.text(telemetry::kUser), "somebody");
  EXPECT_EQ(generate.text(telemetry::kRule), "coupled");
  EXPECT_EQ(generate.number(telemetry::kSamples), 1);
  EXPECT_EQ(generate.number(telemetry::kPromptTokens), 5);
  EXPECT_EQ(generate.number(telemetry::kOutputTokens), 32);
  EXPECT_EQ(generate.text(telemetry::kFinish), "length");
  EXPECT_FALSE(generate.failure.has_value());
  ASSERT_EQ(generate.events.size(), 1u);
  EXPECT_EQ(generate.events[0].first, telemetry::kAdmittedEvent);
  EXPECT_EQ(generate.events[0].second - arrived, absl::Milliseconds(3));
  EXPECT_EQ(f.whole.started().trace_id(), telemetry::TraceIdHex(generate.context));
  for (const RoundSpans& round : RoundsOf(spans)) {
    EXPECT_EQ(round.round.parent, generate.context);
    EXPECT_GE(round.round.began, generate.began);
    EXPECT_LE(round.round.ended, generate.ended);
  }
  EXPECT_EQ(f.contexts.size(), 32u) << "on the wire";
}

TEST(RequestTrace, TheClientsOwnSpanIsTheParent) {
  Fixture f(Request(), kParent + "01", /*sample_roots=*/false);
  f.Run();
  const FakeSpan generate = Generate(f.Spans());
  EXPECT_EQ(telemetry::TraceIdHex(generate.context), kTraceId);
  EXPECT_EQ(telemetry::SpanIdHex(generate.parent), "00f067aa0ba902b7");
  EXPECT_EQ(f.whole.started().trace_id(), kTraceId);
}

TEST(RequestTrace, ARefusedRequestHasTheIdThatItsClientGave) {
  Fixture f(Request());
  auto refused = TraceRequests(*f.tracer)({f.whole.arrived, "", "of-the-header"});
  refused->OnEnded(
      {f.whole.arrived, f.whole.arrived, absl::UnavailableError("leaving"), "", nullptr, {}});
  refused = nullptr;
  EXPECT_EQ(Generate(f.tracer->Take()).text(telemetry::kRequestId), "of-the-header");
  f.Run();
  EXPECT_EQ(Generate(f.Spans()).text(telemetry::kRequestId), "0123456789abcdef");
}

TEST(RequestTrace, WhatIsNotSampledIsNotWatched) {
  const std::pair<std::string, bool> cases[] = {{kParent + "00", true}, {"", false}};
  for (const auto& [traceparent, sample_roots] : cases) {
    Fixture f(Request(), traceparent, sample_roots);
    EXPECT_EQ(TraceRequests(*f.tracer)({f.whole.arrived, traceparent}), nullptr);
    f.Run();
    EXPECT_TRUE(f.whole.sink->closed->ok());
    EXPECT_EQ(f.whole.started().trace_id(), "");
    EXPECT_GT(f.steps, 30);
    EXPECT_TRUE(f.contexts.empty()) << "nothing is said on the wire";
    EXPECT_TRUE(f.Spans().empty());
    EXPECT_EQ(f.tracer->asked(), 2u) << "once a request, not once a round";
  }
}

TEST(RequestTrace, AMalformedParentIsNone) {
  for (const char* traceparent : {"00-xyz", "garbage", "00-00000000000000000000000000000000-00"}) {
    Fixture f(Request(), traceparent);
    f.Run();
    EXPECT_FALSE(Generate(f.Spans()).parent.valid());
    EXPECT_EQ(f.whole.started().trace_id().size(), 32u);
  }
}

TEST(RequestTrace, AllSamplesHangUnderOneRequest) {
  Fixture f(Request(3));
  f.Run();
  const std::vector<FakeSpan> spans = f.Spans();
  const FakeSpan generate = Generate(spans);
  EXPECT_EQ(generate.number(telemetry::kSamples), 3);
  EXPECT_EQ(generate.number(telemetry::kOutputTokens), 96);
  std::map<int64_t, int64_t> rounds;  // by sample: the next number
  for (const RoundSpans& round : RoundsOf(spans)) {
    EXPECT_EQ(round.round.parent, generate.context);
    const int64_t sample = round.round.number(telemetry::kSampleIndex);
    EXPECT_EQ(round.round.number(telemetry::kRound), rounds[sample]++);
  }
  EXPECT_EQ(rounds, (std::map<int64_t, int64_t>{{0, 32}, {1, 32}, {2, 32}}));
}

TEST(RequestTrace, WhatTheClientHasAlreadyIsNotCounted) {
  GenerationRequest request = Request();
  request.output_prefix = {1, 2, 3};
  Fixture f(request);
  f.Run();
  EXPECT_EQ(Generate(f.Spans()).number(telemetry::kOutputTokens), 29);
}

TEST(RequestTrace, ACancelledRequestFailed) {
  Fixture f(Request(2));
  f.whole.Begin();
  for (int i = 0; i < 9; ++i) f.whole.harness.DeliverOne();
  f.whole.call->Cancel(absl::CancelledError("the client went away"));
  f.whole.harness.DeliverAll();
  const std::vector<FakeSpan> spans = f.Spans();
  const FakeSpan generate = Generate(spans);
  EXPECT_THAT(*generate.failure, HasSubstr("CANCELLED"));
  EXPECT_FALSE(generate.attributes.contains(telemetry::kFinish));
  int open = 0;
  for (const RoundSpans& round : RoundsOf(spans)) open += round.decided() ? 0 : 1;
  EXPECT_EQ(open, 2) << "one a sample";
}

TEST(RequestTrace, OneThatNeverBeginsFailedWithNothingUnderIt) {
  Fixture f(Request());
  f.whole.Prepare();
  f.whole.call->OnDecided(absl::ResourceExhaustedError("the line is full"), absl::Seconds(1));
  const std::vector<FakeSpan> spans = f.Spans();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_THAT(*spans[0].failure, HasSubstr("the line is full"));
}

// Refused as no request: Generator tells the end alone.
TEST(RequestTrace, ARefusedOneFailedAndQuotesNothing) {
  testing::FakeClock clock;
  FakeTracer tracer(clock);
  {
    auto trace = TraceRequests(tracer)({clock.Now(), ""});
    trace->OnEnded({clock.Now(),
                    clock.Now(),
                    absl::InvalidArgumentError("text: \"secret\""),
                    trace->trace_id(),
                    nullptr,
                    {}});
  }
  const std::vector<FakeSpan> spans = tracer.Finished();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].failure, "INVALID_ARGUMENT");
  EXPECT_FALSE(spans[0].attributes.contains(telemetry::kOutputTokens));
}

// ---- OpenTelemetry's conventions ----

TEST(RequestTrace, ASpanSaysWhatTheConventionsOfGenAiWant) {
  GenerationRequest request = Request(2);
  request.sampling.top_p = 0.5;
  request.sampling.top_k = 40;
  request.sampling.presence_penalty = -0.25;
  request.sampling.frequency_penalty = 1.5;
  request.seed = 17;
  request.stop_strings = {"secret"};
  Fixture f(request);
  uint32_t cached = 2;  // of the first Step of each sample
  f.whole.harness.target(0).on_step = [&](const internal::v1::Step&,
                                          internal::v1::Verdict& verdict) {
    if (f.steps++ < 2) verdict.set_cached_tokens(cached--);
    return WireTarget::Do::kAnswer;
  };
  f.Run();
  const FakeSpan generate = Generate(f.Spans());
  EXPECT_EQ(generate.text("gen_ai.operation.name"), "text_completion");
  EXPECT_EQ(generate.at("gen_ai.request.stream"), FakeValue(true));
  EXPECT_EQ(generate.text("gen_ai.provider.name"), "tandem");
  EXPECT_EQ(generate.text("gen_ai.request.model"), "tandem");
  EXPECT_EQ(generate.text("gen_ai.output.type"), "text");
  EXPECT_EQ(generate.number("gen_ai.request.choice.count"), 2);
  EXPECT_EQ(generate.number("gen_ai.request.max_tokens"), 32);
  EXPECT_EQ(generate.at("gen_ai.request.temperature"), FakeValue(1.0));
  EXPECT_EQ(generate.at("gen_ai.request.top_p"), FakeValue(0.5));
  EXPECT_EQ(generate.at("gen_ai.request.top_k"), FakeValue(40.0));
  EXPECT_EQ(generate.at("gen_ai.request.presence_penalty"), FakeValue(-0.25));
  EXPECT_EQ(generate.at("gen_ai.request.frequency_penalty"), FakeValue(1.5));
  EXPECT_EQ(generate.number("gen_ai.request.seed"), 17);
  EXPECT_EQ(generate.number("gen_ai.usage.input_tokens"), 5);
  EXPECT_EQ(generate.number("gen_ai.usage.cache_read.input_tokens"), 3);
  EXPECT_EQ(generate.number("gen_ai.usage.output_tokens"), 64);
  EXPECT_EQ(generate.at("gen_ai.response.finish_reasons"),
            FakeValue(std::vector<std::string>{"length", "length"}));
  EXPECT_TRUE(generate.Has("gen_ai.response.id"));
  EXPECT_TRUE(generate.Has("gen_ai.response.model"));
  EXPECT_FALSE(generate.Has("error.type"));
  for (const auto& [name, value] : generate.attributes) {
    const auto* text = std::get_if<std::string>(&value);
    EXPECT_TRUE(text == nullptr || text->find("secret") == std::string::npos) << name;
  }
}

// Their sum may be more than the prompt has: several samples have taken the same.
TEST(RequestTrace, NoMoreTokensAreCachedThanThePromptHas) {
  Fixture f(Request(2));
  f.whole.harness.target(0).on_step = [&](const internal::v1::Step&,
                                          internal::v1::Verdict& verdict) {
    verdict.set_cached_tokens(4);
    return WireTarget::Do::kAnswer;
  };
  f.Run();
  EXPECT_EQ(Generate(f.Spans()).number("gen_ai.usage.cache_read.input_tokens"), 5);
}

// An attribute has 63 bits.
TEST(RequestTrace, ASeedThatIsNoNumberOfTheirsIsLeftOut) {
  GenerationRequest request = Request();
  request.seed = uint64_t{1} << 63;
  Fixture f(request);
  f.Run();
  EXPECT_FALSE(Generate(f.Spans()).Has("gen_ai.request.seed"));
}

// The span of a call that ended with `status` before it was a request; `admitted`: after that.
FakeSpan Ended(const CallFront& front, const absl::Status& status, bool admitted = false) {
  testing::FakeClock clock;
  FakeTracer tracer(clock);
  {
    auto trace = TraceRequests(tracer, "llama")({clock.Now(), "", "", front});
    if (admitted) trace->OnAdmitted(clock.Now(), v1::Started());
    trace->OnEnded({clock.Now(), clock.Now(), status, trace->trace_id(), nullptr, {}});
  }
  return tracer.Finished().at(0);
}

TEST(RequestTrace, ACallOverGrpcHasItsAttributesAlsoIfItFailed) {
  CallFront front;
  front.rpc = telemetry::kGenerateMethod;
  front.server = "tandem.example.org:50050";
  const FakeSpan span = Ended(front, absl::ResourceExhaustedError("too many"));
  EXPECT_EQ(span.text("rpc.system.name"), "grpc");
  EXPECT_EQ(span.text("rpc.method"), "tandem.v1.Generation/Generate");
  EXPECT_EQ(span.text("rpc.response.status_code"), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(span.text("error.type"), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(span.text("server.address"), "tandem.example.org");
  EXPECT_EQ(span.number("server.port"), 50050);
  EXPECT_EQ(span.text("gen_ai.request.model"), "llama");
  EXPECT_FALSE(span.Has("http.route"));
}

TEST(RequestTrace, ACallOverHttpHasTheStatusThatWentOut) {
  CallFront front;
  front.route = "/v1/chat/completions";
  front.encrypted = true;
  front.is_stream = false;
  front.is_chat = true;
  const FakeSpan span = Ended(front, absl::ResourceExhaustedError("too many"));
  EXPECT_EQ(span.text("gen_ai.operation.name"), "chat");
  EXPECT_EQ(span.text("http.request.method"), "POST");
  EXPECT_EQ(span.text("http.route"), "/v1/chat/completions");
  EXPECT_EQ(span.text("url.path"), "/v1/chat/completions");
  EXPECT_EQ(span.text("url.scheme"), "https");
  EXPECT_EQ(span.number("http.response.status_code"), 429);
  EXPECT_EQ(span.text("error.type"), "RESOURCE_EXHAUSTED");
  EXPECT_FALSE(span.Has("rpc.method"));
  EXPECT_FALSE(span.Has("server.address"));

  // An answer in one piece comes after all; a stream's status has gone out when tokens come.
  const absl::Status broken = absl::InternalError("broken");
  EXPECT_EQ(Ended(front, broken, /*admitted=*/true).number("http.response.status_code"), 500);
  front.is_stream = true;
  EXPECT_EQ(Ended(front, broken).number("http.response.status_code"), 500);
  EXPECT_EQ(Ended(front, broken, /*admitted=*/true).number("http.response.status_code"), 200);
  EXPECT_FALSE(Ended(front, absl::CancelledError("gone")).Has("http.response.status_code"));
}

TEST(RequestTrace, WhatCannotBeAServersAddressIsLeftOut) {
  const auto server = [](const std::string& text) {
    CallFront front;
    front.server = text;
    const FakeSpan span = Ended(front, absl::InternalError("x"));
    std::string shown = span.Has("server.address") ? span.text("server.address") : "none";
    if (span.Has("server.port")) shown += " " + std::to_string(span.number("server.port"));
    return shown;
  };
  EXPECT_EQ(server("localhost:8000"), "localhost 8000");
  EXPECT_EQ(server("example.org"), "example.org");
  EXPECT_EQ(server("[::1]:8000"), "::1 8000");
  EXPECT_EQ(server("[2001:db8::7]"), "2001:db8::7");
  for (const std::string bad :
       {"", ":8000", "a:0", "a:65536", "a:b", "a b", "\xff:1", "[::1:80", "x]:80", "<script>:80"}) {
    EXPECT_EQ(server(bad), "none") << bad;
  }
  EXPECT_EQ(server(std::string(256, 'a')), "none");
}

}  // namespace
}  // namespace tandem::orchestrator
