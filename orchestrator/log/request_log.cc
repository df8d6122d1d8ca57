#include "orchestrator/log/request_log.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/theory/acceptance.h"
#include "orchestrator/generate/last_message.h"
#include "orchestrator/request/failure_cause.h"
#include "orchestrator/request/internal_reason.h"
#include "orchestrator/request/without_content.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {
namespace {

using base::LogFields;

bool IsOrdinary(const absl::Status& status) {
  return status.ok() || CauseOf(status.code()) == FailureCause::kClient;
}

void AddCounts(const v1::AcceptanceRecord& counts, LogFields& to) {
  to.Add("rounds", counts.rounds())
      .Add("draft_tokens", counts.draft_tokens())
      .Add("accepted_tokens", counts.accepted_tokens())
      .Add("alpha_hat", theory::EstimateAlpha(counts.accepted_tokens(), counts.rejected_rounds()));
}

void AddTimes(const v1::Timing& timing, LogFields& to) {
  const v1::Stages& stages = timing.stages();
  to.AddMs("first_token_ms", absl::Microseconds(timing.first_token_us()))
      .AddMs("admission_ms", absl::Microseconds(timing.admission_us()))
      .AddMs("draft_ms", absl::Microseconds(stages.draft_us()))
      .AddMs("network_ms", absl::Microseconds(stages.network_us()))
      .AddMs("queue_ms", absl::Microseconds(stages.queue_us()))
      .AddMs("device_ms", absl::Microseconds(stages.device_us()))
      .AddMs("own_ms", absl::Microseconds(stages.own_us()))
      .AddMs("slot_ms", absl::Microseconds(stages.slot_us()));
}

class RequestLog final : public RequestObserver {
 public:
  explicit RequestLog(std::string request_id) : request_id_(std::move(request_id)) {}

  void OnEnded(const RequestEnd& end) override {
    if (IsOrdinary(end.status)) {
      TANDEM_LOG(kInfo) << RequestLine(end, request_id_);
    } else {
      TANDEM_LOG(kWarning) << RequestLine(end, request_id_);
    }
  }

 private:
  const std::string request_id_;
};

// "model:12,mixed:40": tokens that the text got in the rounds of each.
void AddDrafters(const GenerationRequest& request, absl::Span<const Ending> endings,
                 LogFields& line) {
  std::vector<uint64_t> tokens(request.drafters.size());
  for (const Ending& ending : endings) {
    for (size_t i = 0; i < ending.counts.drafters.size(); ++i) {
      tokens[i] += ending.counts.drafters[i].tokens;
    }
  }
  std::vector<std::string> parts;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] > 0) parts.push_back(absl::StrCat(request.drafters[i], ":", tokens[i]));
  }
  if (!request.drafters.empty()) line.Add("drafters", absl::StrJoin(parts, ","));
}

}  // namespace

LogFields RequestLine(const RequestEnd& end, absl::string_view request_id) {
  LogFields line("request");
  line.Add("id", end.request != nullptr ? absl::string_view(end.request->id) : request_id)
      .Add("trace", end.trace_id)
      .Add("status", absl::StatusCodeToString(end.status.code()));
  if (end.request != nullptr && !end.endings.empty()) {
    // What the client gets, or would have got.
    const v1::Last last = MakeLast(*end.request, end.endings);
    if (end.status.ok()) {
      const bool stopped = last.finish_reason() == v1::FINISH_REASON_STOP;
      line.Add("finish", stopped ? "stop" : "length");
    }
    line.Add("prompt_tokens", end.request->prompt_tokens())
        .Add("output_tokens", last.usage().completion_tokens())
        .Add("samples", end.request->samples);
    AddCounts(last.speculation(), line);
    line.AddMs("total_ms", end.at - end.arrived);
    AddTimes(last.timing(), line);
    line.Add("replays", last.speculation().target_replays())
        .Add("reconnections", last.speculation().draft_reconnections());
  } else {  // it never ran
    if (end.request != nullptr) line.Add("prompt_tokens", end.request->prompt_tokens());
    line.AddMs("total_ms", end.at - end.arrived);
  }
  if (end.request != nullptr) line.Add("rule", acceptance::Name(end.request->rule));
  if (end.request != nullptr && !end.endings.empty()) AddDrafters(*end.request, end.endings, line);
  if (end.request != nullptr && !end.request->user.empty()) line.Add("user", end.request->user);
  if (end.request != nullptr && !end.request->ignored.empty()) {
    line.Add("ignored", absl::StrJoin(end.request->ignored, ","));
  }
  if (!end.status.ok()) line.Add("message", WithoutContent(LogText(end.status)));
  return line;
}

WatchRequest LogRequests() {
  return [](const Arrival& arrival) { return std::make_unique<RequestLog>(arrival.request_id); };
}

}  // namespace tandem::orchestrator
