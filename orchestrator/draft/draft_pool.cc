#include "orchestrator/draft/draft_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/concurrency/instant.h"
#include "orchestrator/peers/peer_line.h"

namespace tandem::orchestrator {

class DraftPool::Session final : public DraftSession {
 public:
  Session(std::shared_ptr<DraftPool> pool, std::shared_ptr<DraftEvents> events)
      : pool_(std::move(pool)), events_(std::move(events)) {}

  void Open(const DraftOpen& open) override {
    Close();
    if (std::exchange(drafter_, open.drafter) != open.drafter) refused_.clear();
    Choice choice = pool_->Choose(refused_, drafter_);
    if (choice.id != at_) {
      at_ = choice.id;
      session_ = choice.client == nullptr ? nullptr : choice.client->NewSession(events_);
    }
    if (session_ != nullptr) return session_->Open(open);
    events_->OnDraftLost(open.attempt, choice.loss, std::move(choice.problem));
  }
  void Advance(const DraftAdvance& advance) override {
    if (session_ != nullptr) session_->Advance(advance);
  }
  void Submitted(base::BlockId block_id, uint32_t nodes) override {
    if (session_ != nullptr) session_->Submitted(block_id, nodes);
  }
  void Close() override {
    if (session_ != nullptr) session_->Close();
  }
  NextDraft GiveUp(DraftLoss loss, absl::Duration at_least) override {
    if (session_ != nullptr) session_->GiveUp(loss, at_least);
    if (loss == DraftLoss::kRefused && at_ != 0) refused_.insert(at_);
    return pool_->Failed(at_, loss, at_least, refused_, drafter_);
  }

 private:
  const std::shared_ptr<DraftPool> pool_;
  const std::shared_ptr<DraftEvents> events_;
  uint64_t at_ = 0;                        // the draft of the last Open; 0: there was none
  std::unique_ptr<DraftSession> session_;  // there
  std::string drafter_;                    // of the last Open
  std::set<uint64_t> refused_;             // those that do not fit it
};

DraftPool::DraftPool(MakeDraftClient make_client, const concurrency::Clock& clock,
                     DraftPoolOptions options)
    : make_client_(std::move(make_client)),
      clock_(clock),
      drafts_("draft",
              [options](const std::shared_ptr<DraftClient>& client, uint64_t member_id) {
                return DraftHealth(client, Ejection(options.ejection_min, options.ejection_max,
                                                    options.seed + member_id));
              }),
      chooser_(options.seed) {}

// A session that has just chosen a leaving draft keeps its client.
void DraftPool::SetPeers(const PeerList& list) {
  concurrency::MutexLock setting(setting_);
  Drafts::News news;
  {
    concurrency::MutexLock lock(mutex_);
    news = drafts_.Compare(list, [](DraftClient&) { return true; });
  }
  std::vector<std::shared_ptr<DraftClient>> made;
  made.reserve(news.fresh.size());
  for (const PeerAddress& peer : news.fresh) made.push_back(make_client_(peer));
  Drafts::Members left;  // their ends come after the lock
  concurrency::MutexLock lock(mutex_);
  problem_ = absl::StrJoin(list.problems, "; ");
  drafts_.Arrange(list, news.fresh, std::move(made), [](DraftClient&) {});
  left = drafts_.TakeLeft();
  for (const Drafts::Member& draft : left) {
    std::string model_id = draft.client->model_id();
    if (!model_id.empty()) last_model_id_ = std::move(model_id);
  }
}

std::unique_ptr<DraftSession> DraftPool::NewSession(std::shared_ptr<DraftEvents> events) {
  return std::make_unique<Session>(shared_from_this(), std::move(events));
}

DraftPool::Choice DraftPool::Choose(const std::set<uint64_t>& refused, const std::string& drafter) {
  const concurrency::Instant now = clock_.Now();
  concurrency::MutexLock lock(mutex_);
  struct Candidate {
    const Drafts::Member* draft;
    DraftClient::Status status;
  };
  std::vector<Candidate> good;
  const Drafts::Member* first = nullptr;  // whose time is over first
  const Drafts::Member* misfit = nullptr;
  const Drafts::Member* without = nullptr;
  for (const Drafts::Member& draft : drafts_) {
    if (draft.leaving || refused.contains(draft.id)) continue;
    if (draft.client->status().misfit) {
      misfit = &draft;
      continue;
    }
    // One that may not have the drafter is tried where no other is left.
    if (!draft.client->MayOffer(drafter)) {
      without = &draft;
      continue;
    }
    const concurrency::Instant alone_until = draft.health.AloneUntil(now);
    if (alone_until <= now) good.push_back({&draft, draft.client->status()});
    if (first == nullptr || alone_until < first->health.AloneUntil(now)) first = &draft;
  }
  if (!good.empty()) {
    first = good[chooser_.Choose(good.size(), [&](size_t a, size_t b) {
              const DraftClient::Status& left = good[a].status;
              const DraftClient::Status& right = good[b].status;
              return std::tie(left.queued_rows, left.sequences) <
                     std::tie(right.queued_rows, right.sequences);
            })].draft;
  }
  if (first == nullptr) first = without;
  if (first != nullptr) return {first->id, first->client, DraftLoss::kLost, ""};
  if (misfit != nullptr) {
    return {0, nullptr, DraftLoss::kRefused, misfit->client->Describe().problem()};
  }
  return {0, nullptr, DraftLoss::kLost,
          problem_.empty() ? "no address of a draft is known" : problem_};
}

NextDraft DraftPool::Failed(uint64_t id, DraftLoss loss, absl::Duration at_least,
                            const std::set<uint64_t>& refused, const std::string& drafter) {
  const concurrency::Instant now = clock_.Now();
  concurrency::MutexLock lock(mutex_);
  bool any = false;
  bool any_fits = false;
  bool any_good = false;
  for (Drafts::Member& draft : drafts_) {
    // If a draft refuses one request only, that says nothing about other requests.
    const bool only_ours = loss == DraftLoss::kRefused && draft.client->status().well;
    if (draft.id == id && at_least > absl::ZeroDuration()) {
      draft.health.Full(now + at_least);
    } else if (draft.id == id && !only_ours && draft.health.Eject(now)) {
      TANDEM_LOG(kWarning) << PeerLine("peer_ejected", "draft", draft.peer)
                                  .Add("for", absl::Trunc(draft.health.until() - now,
                                                          absl::Milliseconds(1)));
    }
    if (draft.leaving) continue;
    any = true;
    if (refused.contains(draft.id) || draft.client->status().misfit) continue;
    if (!draft.client->MayOffer(drafter)) continue;
    any_fits = true;
    any_good = any_good || (draft.id != id && draft.health.AloneUntil(now) <= now);
  }
  if (any && !any_fits) return NextDraft::kNever;
  return any_good ? NextDraft::kNow : NextDraft::kLater;
}

std::string DraftPool::model_id() const {
  concurrency::MutexLock lock(mutex_);
  for (const Drafts::Member& draft : drafts_) {
    std::string model_id = draft.client->model_id();
    if (!model_id.empty()) return model_id;
  }
  return last_model_id_;
}

std::vector<std::string> DraftPool::drafters() const { return Names(&DraftClient::drafters); }

std::vector<std::string> DraftPool::tree_drafters() const {
  return Names(&DraftClient::tree_drafters);
}

std::vector<std::string> DraftPool::sampling_drafters() const {
  return Names(&DraftClient::sampling_drafters);
}

std::vector<std::string> DraftPool::Names(std::vector<std::string> (DraftClient::*names)()
                                              const) const {
  std::vector<std::string> all;
  concurrency::MutexLock lock(mutex_);
  for (const Drafts::Member& draft : drafts_) {
    if (draft.leaving) continue;
    for (std::string& name : (*draft.client.*names)()) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(std::move(name));
    }
  }
  return all;
}

std::vector<v1::Peer> DraftPool::Peers() const {
  concurrency::MutexLock lock(mutex_);
  return drafts_.Describe(clock_.Now());
}

}  // namespace tandem::orchestrator
