// One request, one trace: through three services, each with an exporter of its own.
#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/http/port.h"
#include "common/telemetry/attributes.h"
#include "gtest/gtest.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/common/admin/http_client.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"
#include "tests/integration/table_pair.h"
#include "tests/integration/trace_tree.h"
#include "tests/netproxy/netproxy.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kClientSpan[] = "00f067aa0ba902b7";

std::string Traceparent(const std::string& flags) {
  return std::string("00-") + kTraceId + "-" + kClientSpan + "-" + flags;
}

Reply SendUnder(const std::string& traceparent, const std::shared_ptr<grpc::Channel>& channel,
                const v1::GenerateRequest& request,
                const std::vector<std::string>& tracestates = {}) {
  auto stub = v1::Generation::NewStub(channel);
  grpc::ClientContext context;
  context.AddMetadata("traceparent", traceparent);
  for (const std::string& one : tracestates) context.AddMetadata("tracestate", one);
  auto reader = stub->Generate(&context, request);
  Reply reply;
  v1::GenerateReply message;
  while (reader->Read(&message)) TakeReply(std::move(message), reply);
  const grpc::Status status = reader->Finish();
  reply.status =
      absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  return reply;
}

ClusterOptions Traced(double ratio = 1) {
  ClusterOptions options = TableOptions({.vocabulary = 8});
  options.without_sockets = false;
  options.trace_ratio = ratio;
  return options;
}

v1::GenerateRequest Request(uint32_t tokens = 24, uint32_t draft_tokens = 4) {
  v1::GenerateRequest request =
      GreedyRequest(std::vector<uint32_t>{1, 2, 3, 4, 5}, tokens, draft_tokens);
  request.set_round_records(true);
  return request;
}

// All spans of so many requests that have ended.
std::vector<FinishedSpan> Whole(InProcessCluster& cluster, size_t requests) {
  EXPECT_TRUE(WaitUntil([&] { return IsWhole(cluster.spans().Finished(), requests); }));
  return cluster.spans().Finished();
}

// Everything that must hold of these requests, and of nothing else that the cluster did.
void ExpectSound(InProcessCluster& cluster, const std::vector<Reply>& replies) {
  const std::vector<FinishedSpan> spans = Whole(cluster, replies.size());
  const std::map<std::string, TraceTree> trees = TreesOf(spans);
  for (const Reply& reply : replies) {
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    ASSERT_TRUE(trees.contains(reply.started.trace_id()));
    EXPECT_EQ(ProblemsOf(trees.at(reply.started.trace_id()), reply.last, reply.rounds), "");
    EXPECT_EQ(Unanswered(trees.at(reply.started.trace_id())), 0u);
    EXPECT_EQ(trees.at(reply.started.trace_id()).generate.Text(telemetry::kRequestId),
              reply.started.request_id());
  }
  EXPECT_EQ(ProblemsOfPasses(trees, PassesOf(spans)), "");
}

TEST(Trace, ARequestHangsUnderItsClientsSpan) {
  InProcessCluster cluster(Traced());
  const Reply reply = SendUnder(Traceparent("01"), cluster.channel(), Request());
  EXPECT_EQ(reply.started.trace_id(), kTraceId);
  ExpectSound(cluster, {reply});
  const TraceTree tree = TreesOf(cluster.spans().Finished()).at(kTraceId);
  EXPECT_EQ(tree.generate.parent_id, kClientSpan);
  EXPECT_EQ(tree.generate.Text(telemetry::kRule), "greedy");
  EXPECT_EQ(tree.generate.Text(telemetry::kFinish), "length");
  size_t proposals = 0;
  for (const RoundNode& round : tree.rounds) proposals += round.propose.size();
  EXPECT_GT(proposals, 2u);
}

// A round's tree: its depth and the last accepted node are in the span as in the record, and in no
// chain's.
TEST(Trace, ARoundSaysWhichTreeItHad) {
  InProcessCluster cluster(Traced());
  v1::GenerateRequest request = Request(40, 3);
  request.mutable_speculation()->set_draft_nodes(10);
  const Reply reply = SendUnder(Traceparent("01"), cluster.channel(), request);
  ExpectSound(cluster, {reply});
  const TraceTree tree = TreesOf(cluster.spans().Finished()).at(kTraceId);
  ASSERT_EQ(tree.rounds.size(), static_cast<size_t>(reply.rounds.size()));
  uint32_t trees = 0, branches = 0, accepted = 0;
  for (size_t i = 0; i < tree.rounds.size(); ++i) {
    const FinishedSpan& span = tree.rounds[i].span;
    const v1::RoundRecord& record = reply.rounds[i];
    accepted += record.accepted_tokens();
    if (!span.Has(telemetry::kDraftDepth)) {
      EXPECT_FALSE(span.Has(telemetry::kNode));
      EXPECT_EQ(record.draft_depth(), record.draft_tokens()) << "a chain";
      continue;
    }
    ++trees;
    EXPECT_EQ(span.Int(telemetry::kDraftDepth), record.draft_depth());
    EXPECT_EQ(span.Int(telemetry::kNode), record.node());
    EXPECT_LE(record.accepted_tokens(), record.draft_depth());
    EXPECT_LE(record.draft_depth(), 3u);
    EXPECT_LE(record.draft_tokens(), 10u);
    EXPECT_LE(record.node(), record.draft_tokens());
    if (record.draft_tokens() > record.draft_depth()) ++branches;
  }
  EXPECT_EQ(trees, reply.record().tree_rounds());
  EXPECT_GT(branches, 2u);
  EXPECT_EQ(accepted, reply.record().accepted_tokens());
}

// What is not sampled is nowhere, and nobody is told of it.
TEST(Trace, NothingIsSaidOfARequestThatIsNotSampled) {
  for (double ratio : {0.0, 1.0}) {
    InProcessCluster cluster(Traced(ratio));
    // The ratio is of the traces that begin here; a client that says no is not overruled.
    const Reply reply = ratio == 0 ? Send(cluster.channel(), Request())
                                   : SendUnder(Traceparent("00"), cluster.channel(), Request());
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.started.trace_id(), "");
    EXPECT_FALSE(reply.rounds.empty()) << "records need no trace";
    // The control: the same cluster, and a client that says yes.
    const Reply yes = SendUnder(Traceparent("01"), cluster.channel(), Request());
    ExpectSound(cluster, {yes});
    EXPECT_EQ(TreesOf(cluster.spans().Finished()).size(), 1u);
    for (const FinishedSpan& span : cluster.spans().Finished()) {
      EXPECT_TRUE(span.trace_id == kTraceId || span.name == telemetry::kPassSpan) << span.name;
    }
  }
}

TEST(Trace, TenRequestsAtOnceAreTenTracesThatShareTheirPasses) {
  InProcessCluster cluster(Traced());
  std::vector<v1::GenerateRequest> requests;
  for (uint32_t i = 0; i < 10; ++i) requests.push_back(Request(20 + 3 * i, i % 5));
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 10);
  ExpectSound(cluster, replies);
  const std::vector<FinishedSpan> spans = cluster.spans().Finished();
  EXPECT_EQ(TreesOf(spans).size(), 10u);
  size_t shared = 0;
  for (const auto& [id, pass] : PassesOf(spans)) {
    std::set<std::string> traces;
    for (const auto& link : pass.links) traces.insert(telemetry::TraceIdHex(link));
    shared += traces.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(shared, 0u);
}

TEST(Trace, TheChecksFindWhatIsWrong) {
  InProcessCluster cluster(Traced());
  const Reply reply = SendUnder(Traceparent("01"), cluster.channel(), Request());
  const std::vector<FinishedSpan> spans = Whole(cluster, 1);
  const TraceTree good = TreesOf(spans).at(kTraceId);
  const auto passes = PassesOf(spans);
  ASSERT_EQ(ProblemsOf(good, reply.last, reply.rounds), "");

  TraceTree longer = good;
  longer.rounds[1].span.duration += absl::Microseconds(20);
  EXPECT_NE(ProblemsOf(longer, reply.last, reply.rounds), "");
  v1::Last other = reply.last;
  other.mutable_timing()->mutable_stages()->set_device_us(1'000'000);
  EXPECT_NE(ProblemsOf(good, other, reply.rounds), "");
  TraceTree fewer = good;
  fewer.rounds.pop_back();
  EXPECT_NE(ProblemsOf(fewer, reply.last, reply.rounds), "");
  TraceTree alone = good;
  alone.rounds[1].verify[0].at_target.clear();
  EXPECT_NE(ProblemsOf(alone, reply.last, reply.rounds), "");
  TraceTree moved = good;
  moved.rounds[1].verify[0].span.duration += absl::Milliseconds(5);
  EXPECT_NE(ProblemsOf(moved, reply.last, reply.rounds), "");

  TraceTree unlinked = good;
  unlinked.rounds[1].verify[0].at_target[0].links.clear();
  EXPECT_NE(ProblemsOfPasses({{kTraceId, unlinked}}, passes), "");
  auto one_less = passes;
  one_less.begin()->second.links.clear();
  EXPECT_NE(ProblemsOfPasses({{kTraceId, good}}, one_less), "");
}

// Split headers are one list. What is too long or invalid is discarded as a whole, and the trace
// goes on.
TEST(Trace, TheTraceStateOfTheClientStaysWithTheTrace) {
  InProcessCluster cluster(Traced());
  const auto of = [&](const std::string& traceparent, const std::vector<std::string>& tracestates) {
    cluster.spans().Clear();
    EXPECT_TRUE(SendUnder(traceparent, cluster.channel(), Request(4), tracestates).status.ok());
    EXPECT_TRUE(
        WaitUntil([&] { return !cluster.spans().Named(telemetry::kGenerateSpan).empty(); }));
    const std::vector<FinishedSpan> rounds = cluster.spans().Named(telemetry::kRoundSpan);
    EXPECT_FALSE(rounds.empty());
    const FinishedSpan root = cluster.spans().Named(telemetry::kGenerateSpan).at(0);
    for (const FinishedSpan& round : rounds) EXPECT_EQ(round.trace_state, root.trace_state);
    EXPECT_EQ(root.trace_id == kTraceId, traceparent == Traceparent("01"));
    return root.trace_state;
  };
  EXPECT_EQ(of(Traceparent("01"), {"rojo=00f067aa0ba902b7,congo=t61"}),
            "rojo=00f067aa0ba902b7,congo=t61");
  EXPECT_EQ(of(Traceparent("01"), {"rojo=1", "congo=2"}), "rojo=1,congo=2");
  EXPECT_EQ(of(Traceparent("01"), {}), "");
  EXPECT_EQ(of(Traceparent("01"), {"a=" + std::string(510, 'x')}), "") << "a member is too long";
  const std::string b = "b=" + std::string(250, 'x');
  const std::string c = "c=" + std::string(253, 'x');
  EXPECT_EQ(of(Traceparent("01"), {"a=1", b, c}).size(), 512u);
  EXPECT_EQ(of(Traceparent("01"), {"a=1", b, c + "x"}), "") << "513 characters";
  EXPECT_EQ(of(Traceparent("01"), {"not a state"}), "");
  EXPECT_EQ(of("garbage", {"rojo=1"}), "") << "a trace of its own";
}

TEST(Trace, ARequestOverHttpSaysSo) {
  InProcessCluster cluster(Traced());
  const auto port = http::Port::Start({.address = {.host = "127.0.0.1", .port = 0}},
                                      cluster.orchestrator().http_handler());
  ASSERT_TRUE(port.ok()) << port.status();
  const auto post = [&](const std::string& body) {
    cluster.spans().Clear();
    const std::string answer = admin::Http(
        (*port)->port(), absl::StrCat("POST /v1/completions HTTP/1.1\r\nHost: front.example:80\r\n"
                                      "Content-Type: application/json\r\ntraceparent: ",
                                      Traceparent("01"),
                                      "\r\ntracestate: rojo=1\r\nTraceState: "
                                      "congo=2\r\nConnection: close\r\nContent-Length: ",
                                      body.size(), "\r\n\r\n", body));
    EXPECT_TRUE(WaitUntil([&] { return !cluster.spans().Named(telemetry::kGenerateSpan).empty(); }))
        << answer;
    return cluster.spans().Named(telemetry::kGenerateSpan).at(0);
  };
  const FinishedSpan good = post(R"({"prompt": [1, 2, 3], "max_tokens": 2, "temperature": 0})");
  EXPECT_EQ(good.trace_id, kTraceId);
  EXPECT_EQ(good.trace_state, "rojo=1,congo=2");
  EXPECT_EQ(good.Text(telemetry::kHttpRoute), "/v1/completions");
  EXPECT_EQ(good.Text(telemetry::kUrlScheme), "http");
  EXPECT_EQ(good.Text(telemetry::kServerAddress), "front.example");
  EXPECT_EQ(good.Text(telemetry::kGenAiOperation), "text_completion");
  EXPECT_EQ(good.Int(telemetry::kHttpStatus), 200);
  EXPECT_EQ(good.Int(telemetry::kGenAiOutputTokens), 2);
  EXPECT_FALSE(good.Has(telemetry::kRpcMethod));

  const FinishedSpan bad = post(R"({"prompt": [1], "max_tokens": -1})");
  EXPECT_EQ(bad.Int(telemetry::kHttpStatus), 400);
  EXPECT_EQ(bad.Text(telemetry::kErrorType), "INVALID_ARGUMENT");
  EXPECT_EQ(bad.Text(telemetry::kGenAiModel), "tandem");
}

}  // namespace
}  // namespace tandem::testing
