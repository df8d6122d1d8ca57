#include "tests/integration/stage_views.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/generate/stages.h"
#include "common/base/check.h"
#include "common/telemetry/attributes.h"
#include "tests/support/scrape.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

constexpr char kPrompt[] = "Once upon a time";
constexpr uint32_t kTokens = 96;
constexpr uint32_t kDraftTokens = 4;

const std::map<std::string, std::string>& Attributes() {
  static const std::map<std::string, std::string> attributes = {
      {"draft", telemetry::kStageDraft},   {"network", telemetry::kStageNetwork},
      {"slot", telemetry::kStageSlot},     {"queue", telemetry::kStageQueue},
      {"device", telemetry::kStageDevice}, {"own", telemetry::kStageOwn}};
  return attributes;
}

StageTimes FromWire(const v1::Stages& stages, int64_t rounds) {
  StageTimes times;
  for (client::Stage stage : client::kStages) {
    times[client::Name(stage)] =
        absl::Microseconds(static_cast<int64_t>(client::Microseconds(stages, stage))) / rounds;
  }
  return times;
}

}  // namespace

StageTimes OfSpan(const FinishedSpan& span) {
  StageTimes times;
  for (const auto& [stage, attribute] : Attributes()) {
    times[stage] = absl::Microseconds(span.Int(attribute));
  }
  return times;
}

namespace {

StageTimes OfSpans(const std::vector<FinishedSpan>& spans, int64_t rounds) {
  StageTimes times;
  for (const FinishedSpan& span : spans) {
    if (span.name != telemetry::kRoundSpan) continue;
    for (const auto& [stage, time] : OfSpan(span)) times[stage] += time / rounds;
  }
  return times;
}

StageTimes Medians(const std::vector<v1::RoundRecord>& rounds) {
  StageTimes times;
  for (client::Stage stage : client::kStages) {
    std::vector<uint64_t> values;
    for (const v1::RoundRecord& round : rounds) {
      if (round.cause().empty()) values.push_back(client::Microseconds(round.stages(), stage));
    }
    TANDEM_CHECK(!values.empty()) << "no round had a draft";
    auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    times[client::Name(stage)] = absl::Microseconds(static_cast<int64_t>(*middle));
  }
  return times;
}

StageTimes SecondsSums(InProcessCluster& cluster) {
  const auto scrape = ParseMetrics(cluster.orchestrator().MetricsText());
  TANDEM_CHECK_OK(scrape);
  StageTimes times;
  for (const auto& [stage, attribute] : Attributes()) {
    times[stage] =
        absl::Seconds(scrape->Value("tandem:round_stage_seconds_sum", {{"stage", stage}}));
  }
  return times;
}

v1::GenerateRequest Request(const InProcessCluster& cluster) {
  v1::GenerateRequest request =
      GreedyRequest(*cluster.tokenizer().Encode(kPrompt), kTokens, kDraftTokens, "model");
  request.set_round_records(true);
  return request;
}

// The round's spans end before its verdict's answer is sent, generate's after all of them.
std::vector<FinishedSpan> TraceOf(InProcessCluster& cluster, const std::string& trace_id) {
  auto find = [&] {
    std::vector<FinishedSpan> spans = cluster.spans().Finished();
    std::erase_if(spans, [&](const FinishedSpan& span) { return span.trace_id != trace_id; });
    return spans;
  };
  const bool complete = WaitUntil([&] {
    const auto spans = find();
    return std::any_of(spans.begin(), spans.end(), [](const FinishedSpan& span) {
      return span.name == telemetry::kGenerateSpan;
    });
  });
  TANDEM_CHECK(complete) << "trace " << trace_id << " has no end";
  return find();
}

}  // namespace

std::string Text(const StageTimes& times) {
  std::string text;
  for (const auto& [stage, time] : times) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", stage, " ", absl::FormatDuration(time));
  }
  return text;
}

StageViews Watch(InProcessCluster& cluster) {
  StageViews views;
  const StageTimes before = SecondsSums(cluster);
  views.reply = Send(cluster.channel(), Request(cluster));
  TANDEM_CHECK_OK(views.reply.status);
  views.metrics = SecondsSums(cluster);
  const auto rounds = static_cast<int64_t>(views.reply.rounds.size());
  TANDEM_CHECK(rounds == views.reply.record().rounds());
  for (auto& [stage, time] : views.metrics) time = (time - before.at(stage)) / rounds;
  views.timing = FromWire(views.reply.last.timing().stages(), rounds);
  views.records = FromWire(client::SumStages(views.reply.rounds), rounds);
  views.usual = Medians(views.reply.rounds);
  views.spans = TraceOf(cluster, views.reply.started.trace_id());
  views.trace = OfSpans(views.spans, rounds);
  return views;
}

}  // namespace tandem::testing
