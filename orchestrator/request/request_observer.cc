#include "orchestrator/request/request_observer.h"

#include <utility>
#include <vector>

namespace tandem::orchestrator {

namespace {

class RoundObservers final : public RoundObserver {
 public:
  explicit RoundObservers(std::vector<std::unique_ptr<RoundObserver>> all) : all_(std::move(all)) {}

  void OnRoundBegun(concurrency::Instant at, uint32_t committed) override {
    for (const auto& one : all_) one->OnRoundBegun(at, committed);
  }
  void OnDraftAwaited(concurrency::Instant at) override {
    for (const auto& one : all_) one->OnDraftAwaited(at);
  }
  void OnDrafted(concurrency::Instant at, uint32_t candidates,
                 std::optional<PlainCause> cause) override {
    for (const auto& one : all_) one->OnDrafted(at, candidates, cause);
  }
  std::optional<telemetry::SpanContext> OnProposing(uint32_t max_draft_tokens,
                                                    absl::string_view draft) override {
    return FirstOf([&](RoundObserver& one) { return one.OnProposing(max_draft_tokens, draft); });
  }
  std::optional<telemetry::SpanContext> OnSubmitted(concurrency::Instant at, uint32_t rows,
                                                    absl::string_view target) override {
    return FirstOf([&](RoundObserver& one) { return one.OnSubmitted(at, rows, target); });
  }
  void OnTargetLeft(concurrency::Instant at, LeaveCause cause) override {
    for (const auto& one : all_) one->OnTargetLeft(at, cause);
  }
  void OnReplay(concurrency::Instant at, absl::string_view reason) override {
    for (const auto& one : all_) one->OnReplay(at, reason);
  }
  void OnVerified(concurrency::Instant at, const VerifyReply& reply) override {
    for (const auto& one : all_) one->OnVerified(at, reply);
  }
  void OnDecided(const RoundRecord& round) override {
    for (const auto& one : all_) one->OnDecided(round);
  }
  void OnEnded(concurrency::Instant at, const Ending& ending) override {
    for (const auto& one : all_) one->OnEnded(at, ending);
  }

 private:
  // All are told. The context of the first one that traces travels.
  template <typename Tell>
  std::optional<telemetry::SpanContext> FirstOf(const Tell& tell) {
    std::optional<telemetry::SpanContext> first;
    for (const auto& one : all_) {
      std::optional<telemetry::SpanContext> context = tell(*one);
      if (!first.has_value()) first = context;
    }
    return first;
  }

  const std::vector<std::unique_ptr<RoundObserver>> all_;
};

class RequestObservers final : public RequestObserver {
 public:
  explicit RequestObservers(std::vector<std::unique_ptr<RequestObserver>> all)
      : all_(std::move(all)) {}

  std::string trace_id() const override {
    for (const auto& one : all_) {
      if (std::string id = one->trace_id(); !id.empty()) return id;
    }
    return {};
  }
  void OnAccepted(concurrency::Instant at, const GenerationRequest& request) override {
    for (const auto& one : all_) one->OnAccepted(at, request);
  }
  void OnAdmitted(concurrency::Instant at, const v1::Started& started) override {
    for (const auto& one : all_) one->OnAdmitted(at, started);
  }
  std::unique_ptr<RoundObserver> WatchSample(uint32_t sample_index) override {
    std::vector<std::unique_ptr<RoundObserver>> observers;
    for (const auto& one : all_) observers.push_back(one->WatchSample(sample_index));
    return JoinObservers(std::move(observers));
  }
  void OnEnded(const RequestEnd& end) override {
    for (const auto& one : all_) one->OnEnded(end);
  }

 private:
  const std::vector<std::unique_ptr<RequestObserver>> all_;
};

}  // namespace

std::unique_ptr<RoundObserver> JoinObservers(
    std::vector<std::unique_ptr<RoundObserver>> observers) {
  std::erase(observers, nullptr);
  if (observers.empty()) return std::make_unique<RoundObserver>();
  if (observers.size() == 1) return std::move(observers.front());
  return std::make_unique<RoundObservers>(std::move(observers));
}

std::unique_ptr<RequestObserver> WatchAll(absl::Span<const WatchRequest> watchers,
                                          const Arrival& arrival) {
  std::vector<std::unique_ptr<RequestObserver>> observers;
  for (const WatchRequest& watch : watchers) observers.push_back(watch(arrival));
  std::erase(observers, nullptr);
  if (observers.size() == 1) return std::move(observers.front());
  return std::make_unique<RequestObservers>(std::move(observers));
}

}  // namespace tandem::orchestrator
