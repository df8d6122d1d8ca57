#include "orchestrator/draft/draft_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "orchestrator/peers/peer_line.h"

namespace tandem::orchestrator {

class DraftPool::Session final : public DraftSession {
 public:
  Session(std::shared_ptr<DraftPool> pool, std::shared_ptr<DraftEvents> events)
      : pool_(std::move(pool)), events_(std::move(events)) {}

  void Open(const DraftOpen& open) override {
    Close();
    Choice choice = pool_->Choose(refused_);
    if (choice.id != at_) {
      at_ = choice.id;
      session_ = choice.client == nullptr ? nullptr : choice.client->NewSession(events_);
    }
    if (session_ != nullptr) return session_->Open(open);
    events_->OnDraftLost(open.attempt, DraftLoss::kLost, std::move(choice.problem));
  }
  void Advance(const DraftAdvance& advance) override {
    if (session_ != nullptr) session_->Advance(advance);
  }
  void Submitted(uint64_t block_id, uint32_t nodes) override {
    if (session_ != nullptr) session_->Submitted(block_id, nodes);
  }
  void Close() override {
    if (session_ != nullptr) session_->Close();
  }
  NextDraft GiveUp(DraftLoss loss, absl::Duration at_least) override {
    Close();
    if (loss == DraftLoss::kRefused && at_ != 0) refused_.insert(at_);
    return pool_->Failed(at_, loss, at_least, refused_);
  }

 private:
  const std::shared_ptr<DraftPool> pool_;
  const std::shared_ptr<DraftEvents> events_;
  uint64_t at_ = 0;                        // the draft of the last Open; 0: there was none
  std::unique_ptr<DraftSession> session_;  // there
  std::set<uint64_t> refused_;             // those that do not fit
};

DraftPool::DraftPool(MakeDraftClient make_client, const concurrency::Clock& clock,
                     DraftPoolOptions options)
    : make_client_(std::move(make_client)),
      clock_(clock),
      options_(options),
      chooser_(options.seed) {}

void DraftPool::SetPeers(const PeerList& list) {
  concurrency::MutexLock setting(setting_);
  std::vector<PeerAddress> fresh;
  {
    concurrency::MutexLock lock(mutex_);
    for (const PeerAddress& peer : list.peers) {
      if (Find(peer) == drafts_.end()) fresh.push_back(peer);
    }
  }
  std::vector<std::shared_ptr<DraftClient>> made;
  made.reserve(fresh.size());
  for (const PeerAddress& peer : fresh) made.push_back(make_client_(peer));
  std::list<Draft> left;  // their ends come after the lock
  concurrency::MutexLock lock(mutex_);
  problem_ = absl::StrJoin(list.problems, "; ");
  for (size_t i = 0; i < fresh.size(); ++i) {
    TANDEM_LOG(kInfo) << PeerLine("peer_found", "draft", fresh[i]);
    const uint64_t id = ++last_id_;
    drafts_.push_back({id, fresh[i], std::move(made[i]),
                       Ejection(options_.ejection_min, options_.ejection_max, options_.seed + id)});
  }
  std::list<Draft> ordered;
  for (const PeerAddress& peer : list.peers) {
    const auto draft = Find(peer);
    TANDEM_CHECK(draft != drafts_.end()) << peer.address << " is there twice";
    if (std::exchange(draft->leaving, false)) {
      TANDEM_LOG(kInfo) << PeerLine("peer_returned", "draft", peer);
    }
    ordered.splice(ordered.end(), drafts_, draft);
  }
  for (Draft& draft : drafts_) {
    if (std::exchange(draft.leaving, true)) continue;
    TANDEM_LOG(kInfo) << PeerLine("peer_leaving", "draft", draft.peer)
                             .Add("sequences", draft.client->status().sequences);
  }
  ordered.splice(ordered.end(), drafts_);
  drafts_.swap(ordered);
  left = TakeLeft();
}

// Those that are leaving and have nothing to do any more. A session that has just chosen one keeps its
// client.
std::list<DraftPool::Draft> DraftPool::TakeLeft() {
  std::list<Draft> left;
  for (auto next = drafts_.begin(); next != drafts_.end();) {
    const auto draft = next++;
    if (!draft->leaving || draft->client->status().sequences > 0) continue;
    TANDEM_LOG(kInfo) << PeerLine("peer_left", "draft", draft->peer);
    std::string model_id = draft->client->model_id();
    if (!model_id.empty()) last_model_id_ = std::move(model_id);
    left.splice(left.end(), drafts_, draft);
  }
  return left;
}

std::list<DraftPool::Draft>::iterator DraftPool::Find(const PeerAddress& peer) {
  return std::find_if(drafts_.begin(), drafts_.end(),
                      [&](const Draft& draft) { return draft.peer == peer; });
}

std::unique_ptr<DraftSession> DraftPool::NewSession(std::shared_ptr<DraftEvents> events) {
  return std::make_unique<Session>(shared_from_this(), std::move(events));
}

DraftPool::Choice DraftPool::Choose(const std::set<uint64_t>& refused) {
  const absl::Duration now = clock_.Now();
  concurrency::MutexLock lock(mutex_);
  struct Candidate {
    Draft* draft;
    DraftClient::Status status;
  };
  std::vector<Candidate> good;
  Draft* first = nullptr;  // whose time is over first
  for (Draft& draft : drafts_) {
    if (draft.leaving || refused.contains(draft.id)) continue;
    if (AloneUntil(draft, now) <= now) good.push_back({&draft, draft.client->status()});
    if (first == nullptr || AloneUntil(draft, now) < AloneUntil(*first, now)) first = &draft;
  }
  if (!good.empty()) {
    first = good[chooser_.Choose(good.size(), [&](size_t a, size_t b) {
              const DraftClient::Status& left = good[a].status;
              const DraftClient::Status& right = good[b].status;
              return std::tie(left.queued_rows, left.sequences) <
                     std::tie(right.queued_rows, right.sequences);
            })].draft;
  }
  if (first != nullptr) return {first->id, first->client, ""};
  return {0, nullptr, problem_.empty() ? "no address of a draft is known" : problem_};
}

NextDraft DraftPool::Failed(uint64_t id, DraftLoss loss, absl::Duration at_least,
                            const std::set<uint64_t>& refused) {
  const absl::Duration now = clock_.Now();
  concurrency::MutexLock lock(mutex_);
  bool any = false;
  bool any_fits = false;
  bool any_good = false;
  for (Draft& draft : drafts_) {
    // What one request alone is refused for says nothing to the others.
    const bool only_ours = loss == DraftLoss::kRefused && draft.client->status().well;
    if (draft.id == id && at_least > absl::ZeroDuration()) {
      draft.full_until = std::max(draft.full_until, now + at_least);
    } else if (draft.id == id && !only_ours) {
      Eject(draft, now);
    }
    if (draft.leaving) continue;
    any = true;
    if (refused.contains(draft.id)) continue;
    any_fits = true;
    any_good = any_good || (draft.id != id && AloneUntil(draft, now) <= now);
  }
  if (any && !any_fits) return NextDraft::kNever;
  return any_good ? NextDraft::kNow : NextDraft::kLater;
}

// Many requests lose the same draft at once: that is one failure.
void DraftPool::Eject(Draft& draft, absl::Duration now) {
  const uint64_t answers = draft.client->status().answers;
  const bool worked = answers != draft.answers;
  if (worked) draft.ejection.Worked();
  if (draft.ejection.Ejected(now)) return;
  const bool again = !worked && draft.ejection.count() > 0;
  draft.answers = answers;
  draft.ejection.Failed(now);
  if (again) return;  // told before
  TANDEM_LOG(kWarning) << PeerLine("peer_ejected", "draft", draft.peer)
                              .Add("for", absl::Trunc(draft.ejection.until() - now,
                                                      absl::Milliseconds(1)));
}

bool DraftPool::IsEjected(const Draft& draft, absl::Duration now) const {
  return draft.ejection.Ejected(now) && draft.client->status().answers == draft.answers;
}

absl::Duration DraftPool::AloneUntil(const Draft& draft, absl::Duration now) const {
  return IsEjected(draft, now) ? std::max(draft.ejection.until(), draft.full_until)
                               : draft.full_until;
}

std::string DraftPool::model_id() const {
  concurrency::MutexLock lock(mutex_);
  for (const Draft& draft : drafts_) {
    std::string model_id = draft.client->model_id();
    if (!model_id.empty()) return model_id;
  }
  return last_model_id_;
}

std::vector<std::string> DraftPool::drafters() const {
  std::vector<std::string> all;
  concurrency::MutexLock lock(mutex_);
  for (const Draft& draft : drafts_) {
    if (draft.leaving) continue;
    for (std::string& name : draft.client->drafters()) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(std::move(name));
    }
  }
  return all;
}

std::vector<v1::Peer> DraftPool::Peers() const {
  const absl::Duration now = clock_.Now();
  std::vector<v1::Peer> peers;
  concurrency::MutexLock lock(mutex_);
  for (const Draft& draft : drafts_) {
    v1::Peer& peer = peers.emplace_back(draft.client->Describe());
    peer.set_leaving(draft.leaving);
    peer.set_ejected(IsEjected(draft, now));
    peer.set_ejections(draft.ejection.count());
  }
  return peers;
}

}  // namespace tandem::orchestrator
