// What the log says of requests, and what it never says: text and tokens, of prompts and of
// outputs.
#include <signal.h>

#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/held_call.h"
#include "tests/integration/many_requests.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"
#include "tests/integration/scraper.h"
#include "tests/orchestrator/metrics/identities.h"
#include "tests/support/log_lines.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kSecret[] = "Xylophone Quetzalcoatl hid 918273 gold coins";
constexpr uint32_t kNoToken = 3'141'592;  // beyond the vocabulary

v1::GenerateRequest SecretRequest(uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text(kSecret);
  request.set_max_tokens(max_tokens);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_speculation()->set_fixed(3);
  return request;
}

ClusterOptions TracedDemo(double ratio = 1) {
  ClusterOptions options = DemoOptions();
  options.trace_ratio = ratio;
  return options;
}

// Each is refused, with a message that quotes what was sent.
std::vector<v1::GenerateRequest> BadRequests() {
  std::vector<v1::GenerateRequest> requests(4, SecretRequest(8));
  requests[0].mutable_ids()->add_ids(kNoToken);
  requests[1].mutable_speculation()->set_drafter(kSecret);
  requests[2].mutable_stop()->add_token_ids(kNoToken);
  requests[3].add_output_prefix_ids(kNoToken);
  return requests;
}

// Fields whose numbers are of the request as a whole.
bool IsNumber(const std::string& field) {
  static const auto& fields = *new std::set<std::string>{
      "prompt_tokens",   "output_tokens", "samples", "rounds",       "draft_tokens",
      "accepted_tokens", "alpha_hat",     "replays", "reconnections"};
  return fields.contains(field) || absl::EndsWith(field, "_ms");
}

TEST(Log, NeitherTextNorTokensOfAnyRequest) {
  const LogRecorder log;
  std::set<std::string> ids = {absl::StrCat(kNoToken)};
  std::vector<std::string> texts = {"Xylophone", "Quetzalcoatl", "918273", "gold coins"};
  size_t requests = 0;
  {
    ClusterOptions options = PatientDemoOptions();
    options.trace_ratio = 1;
    InProcessCluster cluster(std::move(options));
    const Reply whole = Send(cluster.channel(), SecretRequest(48));
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    ASSERT_GT(whole.record().draft_tokens(), 0u) << "the draft has told its drafters";
    for (const v1::GenerateRequest& request : BadRequests()) {
      const Reply reply = Send(cluster.channel(), request);
      EXPECT_EQ(reply.status.code(), absl::StatusCode::kInvalidArgument);
      const std::string message(reply.status.message());
      EXPECT_TRUE(absl::StrContains(message, kSecret) ||
                  absl::StrContains(message, absl::StrCat(kNoToken)))
          << "the client is told all of it: " << message;
      ++requests;
    }
    HeldCall cancelled(cluster.channel(), SecretRequest(400), {.cancel_after_deltas = 2});
    cancelled.Wait();
    requests += 2;
    const auto prompt = cluster.tokenizer().Encode(kSecret);
    ASSERT_TRUE(prompt.ok());
    for (const uint32_t id : *prompt) ids.insert(absl::StrCat(id));
    for (const uint32_t id : whole.ids) ids.insert(absl::StrCat(id));
    for (const absl::string_view word : absl::StrSplit(whole.text, ' ')) {
      if (word.size() >= 8) texts.emplace_back(word);
    }
    // Resuming a text that has ended is refused with the place and the id of its end.
    v1::GenerateRequest ended = SecretRequest(400);
    ended.mutable_stop()->add_token_ids(whole.ids.back());
    ended.mutable_output_prefix_ids()->Add(whole.ids.begin(), whole.ids.end());
    const Reply resumed = Send(cluster.channel(), ended);
    EXPECT_THAT(std::string(resumed.status.message()), HasSubstr("nothing to resume"));
    ++requests;
    ASSERT_TRUE(WaitUntil([&] { return log.Of("request").size() == requests; }));
  }
  EXPECT_THAT(log.Of("request"), SizeIs(requests));
  for (const LogLine& line : log.Lines()) {
    for (const std::string& text : texts) EXPECT_THAT(line.text, Not(HasSubstr(text)));
    if (line.event != "request") continue;
    for (const auto& [field, value] : line.fields) {
      if (field == "id" || field == "trace" || IsNumber(field)) continue;
      for (const absl::string_view word : absl::StrSplit(value, absl::ByAnyChar(" ,;:()[]"))) {
        EXPECT_FALSE(ids.contains(std::string(word))) << line.text;
      }
    }
  }
}

TEST(Log, OneLineARequestWithItsIdAndTrace) {
  const LogRecorder log;
  for (const double ratio : {1.0, 0.0}) {
    InProcessCluster cluster(TracedDemo(ratio));
    const std::vector<v1::GenerateRequest> requests = MixedRequests(cluster.tokenizer(), 12);
    for (const Reply& reply : SendAll(cluster.channel(), requests, 4)) {
      ASSERT_TRUE(reply.status.ok()) << reply.status;
      std::vector<LogLine> lines;
      for (LogLine& line : log.Of("request")) {
        if (line.fields.at("id") == reply.started.request_id()) lines.push_back(std::move(line));
      }
      ASSERT_THAT(lines, SizeIs(1));
      const auto& fields = lines[0].fields;
      EXPECT_EQ(fields.at("trace"), reply.started.trace_id());
      EXPECT_EQ(reply.started.trace_id().empty(), ratio == 0);
      EXPECT_EQ(fields.at("status"), "OK");
      EXPECT_EQ(fields.at("output_tokens"), absl::StrCat(reply.last.usage().completion_tokens()));
      EXPECT_EQ(fields.at("rounds"), absl::StrCat(reply.record().rounds()));
      EXPECT_EQ(fields.at("draft_tokens"), absl::StrCat(reply.record().draft_tokens()));
      EXPECT_EQ(fields.at("accepted_tokens"), absl::StrCat(reply.record().accepted_tokens()));
      EXPECT_EQ(fields.at("prompt_tokens"), absl::StrCat(reply.last.usage().prompt_tokens()));
      double device_ms = -1;
      ASSERT_TRUE(absl::SimpleAtod(fields.at("device_ms"), &device_ms));
      EXPECT_NEAR(device_ms, 1e-3 * static_cast<double>(reply.last.timing().stages().device_us()),
                  1e-6);
    }
  }
}

TEST(Log, NoLineARound) {
  const LogRecorder log;
  ClusterOptions options = PatientDemoOptions();
  options.loop.watchdog_min = absl::Minutes(5);  // a busy machine's hiccups are not lost peers
  InProcessCluster cluster(std::move(options));
  ASSERT_TRUE(Send(cluster.channel(), SecretRequest(4)).status.ok());  // the draft's first use
  std::vector<size_t> lines;
  std::vector<uint32_t> rounds;
  for (const uint32_t tokens : {2u, 100u}) {
    const size_t before = log.Lines().size();
    const Reply reply = Send(cluster.channel(), SecretRequest(tokens));
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    lines.push_back(log.Lines().size() - before);
    rounds.push_back(reply.record().rounds());
  }
  EXPECT_GT(rounds[1], rounds[0] + 10);
  EXPECT_EQ(lines[0], 1u);
  EXPECT_EQ(lines[1], 1u) << ::testing::PrintToString(log.Texts());
}

// The lines of the real binary, from its standard error.
std::vector<LogLine> LinesOf(const Process& process) {
  std::vector<LogLine> lines;
  for (const absl::string_view text : absl::StrSplit(process.Output(), '\n', absl::SkipEmpty())) {
    // time, level, place, message
    const std::vector<absl::string_view> words = absl::StrSplit(text, absl::MaxSplits(' ', 3));
    if (words.size() == 4) lines.push_back(ParseLogLine(words[3]));
  }
  return lines;
}
std::vector<LogLine> Of(const std::string& event, const Process& process) {
  std::vector<LogLine> found;
  for (LogLine& line : LinesOf(process)) {
    if (line.event == event) found.push_back(std::move(line));
  }
  return found;
}

// Who the first such line about a target names; the draft has such lines, too.
std::string FirstTarget(const std::string& event, const Process& process) {
  for (const LogLine& line : Of(event, process)) {
    if (line.fields.at("kind") == "target") return line.fields.at("peer");
  }
  return "";
}

TEST(Log, TheBinarySaysWhatItIsWhatChangesAndThatItStopped) {
  ProcessCluster cluster;
  ProcessCluster::Options options;
  options.orchestrator_flags = {"--admin-listen=127.0.0.1:0", "--draft-wait=123ms"};
  cluster.StartOrchestrator(options);
  const Process& orchestrator = cluster.orchestrator();
  ASSERT_THAT(Of("start", orchestrator), SizeIs(1));
  const LogLine start = Of("start", orchestrator)[0];
  EXPECT_EQ(start.fields.at("service"), "orchestrator");
  EXPECT_EQ(start.fields.at("targets"), cluster.target_address());
  EXPECT_EQ(start.fields.at("drafts"), cluster.draft_address());
  EXPECT_EQ(start.fields.at("draft_wait"), "123ms");
  EXPECT_EQ(start.fields.at("tracing"), "off");
  ASSERT_TRUE(WaitUntil([&] { return Of("ready", orchestrator).size() == 1; }));
  EXPECT_EQ(FirstTarget("peer_up", orchestrator), cluster.target_address());

  const Reply reply = Send(cluster.channel(), SecretRequest(16));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  // The admin port of the real thing.
  int admin_port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(start.fields.at("admin_port"), &admin_port));
  const absl::StatusOr<Scrape> scrape = ScrapePort(admin_port);
  ASSERT_TRUE(scrape.ok()) << scrape.status();
  EXPECT_THAT(orchestrator::BrokenIdentities(*scrape), IsEmpty());
  EXPECT_GE(scrape->Value("tandem:generation_tokens_total"), 16);
  EXPECT_EQ(scrape->Value("tandem:build_info", {{"service", "orchestrator"},
                                                {"version", start.fields.at("version")},
                                                {"instance", start.fields.at("instance")}}),
            1);
  EXPECT_EQ(
      scrape->Value("tandem:peer_up", {{"peer", cluster.target_address()}, {"kind", "target"}}), 1);

  const size_t before = Of("not_ready", orchestrator).size();  // until the target was connected
  cluster.target().Kill();
  ASSERT_TRUE(WaitUntil([&] { return Of("not_ready", orchestrator).size() > before; }));
  EXPECT_EQ(FirstTarget("peer_lost", orchestrator), cluster.target_address());
  cluster.RestartTarget();
  ASSERT_TRUE(WaitUntil([&] { return Of("ready", orchestrator).size() == 2; }));

  cluster.orchestrator().Signal(SIGTERM);
  EXPECT_EQ(cluster.orchestrator().Wait(), 0);
  EXPECT_THAT(Of("draining", orchestrator), SizeIs(1));
  ASSERT_FALSE(LinesOf(orchestrator).empty());
  const LogLine stopped = Of("stopped", orchestrator)[0];
  EXPECT_EQ(stopped.fields.at("waiting_ended"), "finished");
  EXPECT_EQ(stopped.fields.at("requests_ended"), "0");
  EXPECT_EQ(LinesOf(orchestrator).back().text, stopped.text);
}

}  // namespace
}  // namespace tandem::testing
