#include "orchestrator/request/request_observer.h"

#include <utility>
#include <vector>

#include "orchestrator/draft/draft_session.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

std::unique_ptr<DraftSession> RoundObserver::Wrap(std::unique_ptr<DraftSession> draft) {
  return draft;
}

std::unique_ptr<VerifySession> RoundObserver::Wrap(std::unique_ptr<VerifySession> verify) {
  return verify;
}

namespace {

class RoundObservers final : public RoundObserver {
 public:
  explicit RoundObservers(std::vector<std::unique_ptr<RoundObserver>> all) : all_(std::move(all)) {}

  std::unique_ptr<DraftSession> Wrap(std::unique_ptr<DraftSession> draft) override {
    for (const auto& one : all_) draft = one->Wrap(std::move(draft));
    return draft;
  }
  std::unique_ptr<VerifySession> Wrap(std::unique_ptr<VerifySession> verify) override {
    for (const auto& one : all_) verify = one->Wrap(std::move(verify));
    return verify;
  }
  void OnRoundBegun(absl::Duration at, uint32_t committed) override {
    for (const auto& one : all_) one->OnRoundBegun(at, committed);
  }
  void OnDraftAwaited(absl::Duration at) override {
    for (const auto& one : all_) one->OnDraftAwaited(at);
  }
  void OnDrafted(absl::Duration at, uint32_t candidates, std::optional<PlainCause> cause) override {
    for (const auto& one : all_) one->OnDrafted(at, candidates, cause);
  }
  void OnSubmitted(absl::Duration at) override {
    for (const auto& one : all_) one->OnSubmitted(at);
  }
  void OnReplay(absl::Duration at, absl::string_view reason) override {
    for (const auto& one : all_) one->OnReplay(at, reason);
  }
  void OnVerified(absl::Duration at, const VerifyReply& reply) override {
    for (const auto& one : all_) one->OnVerified(at, reply);
  }
  void OnDecided(const RoundRecord& round) override {
    for (const auto& one : all_) one->OnDecided(round);
  }
  void OnEnded(absl::Duration at, const Ending& ending) override {
    for (const auto& one : all_) one->OnEnded(at, ending);
  }

 private:
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
  void OnAccepted(absl::Duration at, const GenerationRequest& request) override {
    for (const auto& one : all_) one->OnAccepted(at, request);
  }
  void OnAdmitted(absl::Duration at, const v1::Started& started) override {
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
