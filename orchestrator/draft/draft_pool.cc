#include "orchestrator/draft/draft_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/config/check.h"

namespace tandem::orchestrator {

class DraftPool::Session final : public DraftSession {
 public:
  Session(std::shared_ptr<DraftPool> pool, std::shared_ptr<DraftEvents> events)
      : pool_(std::move(pool)), events_(std::move(events)), sessions_(pool_->clients_.size()) {}

  void Open(const DraftOpen& open) override {
    Close();
    // The loop opens nothing more once it was told kNever.
    TANDEM_CHECK(refused_.size() < sessions_.size());
    at_ = pool_->Choose(refused_);
    if (sessions_[at_] == nullptr) sessions_[at_] = pool_->clients_[at_]->NewSession(events_);
    sessions_[at_]->Open(open);
  }
  void Advance(const DraftAdvance& advance) override {
    if (sessions_[at_] != nullptr) sessions_[at_]->Advance(advance);
  }
  void Submitted(uint64_t block_id, uint32_t nodes) override {
    if (sessions_[at_] != nullptr) sessions_[at_]->Submitted(block_id, nodes);
  }
  void Close() override {
    if (sessions_[at_] != nullptr) sessions_[at_]->Close();
  }
  NextDraft GiveUp(DraftLoss loss, absl::Duration at_least) override {
    Close();
    if (loss == DraftLoss::kRefused) refused_.insert(at_);
    return pool_->Failed(at_, loss, at_least, refused_);
  }

 private:
  const std::shared_ptr<DraftPool> pool_;
  const std::shared_ptr<DraftEvents> events_;
  std::vector<std::unique_ptr<DraftSession>> sessions_;  // by draft; null: not used yet
  size_t at_ = 0;                                        // the draft of the last Open
  std::set<size_t> refused_;                             // those that do not fit
};

DraftPool::DraftPool(std::vector<std::shared_ptr<DraftClient>> clients,
                     const concurrency::Clock& clock, absl::Duration backoff_least,
                     absl::Duration backoff_most, uint64_t seed)
    : clock_(clock), clients_(std::move(clients)), chooser_(seed) {
  TANDEM_CHECK(!clients_.empty());
  concurrency::MutexLock lock(mutex_);
  for (size_t i = 0; i < clients_.size(); ++i) {
    drafts_.push_back(Draft{clients_[i], RetryDelay(backoff_least, backoff_most, seed + i + 1)});
  }
}

std::unique_ptr<DraftSession> DraftPool::NewSession(std::shared_ptr<DraftEvents> events) {
  return std::make_unique<Session>(shared_from_this(), std::move(events));
}

bool DraftPool::IsFailed(const Draft& draft) const {
  return draft.failed && clock_.Now() < draft.failed_until &&
         draft.client->status().welcomes == draft.failed_welcomes;
}

size_t DraftPool::Choose(const std::set<size_t>& refused) {
  concurrency::MutexLock lock(mutex_);
  std::vector<size_t> good;
  std::vector<size_t> failed;
  std::vector<DraftClient::Status> status(drafts_.size());
  for (size_t i = 0; i < drafts_.size(); ++i) {
    if (refused.contains(i)) continue;
    status[i] = drafts_[i].client->status();
    (IsFailed(drafts_[i]) ? failed : good).push_back(i);
  }
  if (good.empty()) {
    size_t first = failed[0];
    for (size_t i : failed) {
      if (drafts_[i].failed_until < drafts_[first].failed_until) first = i;
    }
    return first;
  }
  return good[chooser_.Choose(good.size(), [&](size_t a, size_t b) {
    const DraftClient::Status& left = status[good[a]];
    const DraftClient::Status& right = status[good[b]];
    return std::tie(left.queued_rows, left.sequences) <
           std::tie(right.queued_rows, right.sequences);
  })];
}

NextDraft DraftPool::Failed(size_t index, DraftLoss loss, absl::Duration at_least,
                            const std::set<size_t>& refused) {
  concurrency::MutexLock lock(mutex_);
  Draft& draft = drafts_[index];
  const DraftClient::Status status = draft.client->status();
  // What one request alone is refused for says nothing to the others.
  const bool only_ours = loss == DraftLoss::kRefused && status.well;
  // Many requests lose the same draft at once: that is one failure.
  if (!only_ours && !IsFailed(draft)) {
    const uint64_t welcomes = status.welcomes;
    if (!draft.failed || welcomes != draft.failed_welcomes) draft.backoff.Reset();
    draft.failed = true;
    draft.failed_welcomes = welcomes;
    draft.failed_until = clock_.Now() + std::max(draft.backoff.Next(), at_least);
  }
  if (refused.size() == drafts_.size()) return NextDraft::kNever;
  for (size_t i = 0; i < drafts_.size(); ++i) {
    if (!refused.contains(i) && !IsFailed(drafts_[i])) return NextDraft::kNow;
  }
  return NextDraft::kLater;
}

std::string DraftPool::model_id() const {
  for (const auto& client : clients_) {
    std::string model_id = client->model_id();
    if (!model_id.empty()) return model_id;
  }
  return {};
}

std::vector<v1::Peer> DraftPool::Peers() const {
  std::vector<v1::Peer> peers;
  peers.reserve(clients_.size());
  for (const auto& client : clients_) peers.push_back(client->Describe());
  return peers;
}

}  // namespace tandem::orchestrator
