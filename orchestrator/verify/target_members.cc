// Which targets a TargetPool has: who comes, who leaves, who is left alone for a while.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "orchestrator/peers/peer_line.h"
#include "orchestrator/verify/target_pace.h"
#include "orchestrator/verify/target_pool.h"

namespace tandem::orchestrator {

void TargetPool::SetPeers(const PeerList& list) {
  concurrency::MutexLock setting(setting_);
  std::vector<PeerAddress> fresh;
  bool changed = false;
  {
    concurrency::MutexLock lock(mutex_);
    if (stopped_) return;
    problems_ = list.problems;
    for (const PeerAddress& peer : list.peers) {
      const auto target = Find(peer);
      if (target == targets_.end()) {
        fresh.push_back(peer);
      } else if (target->leaving) {
        changed = true;
        target->leaving = false;
        if (target->client->Reopen(true)) {
          TANDEM_LOG(kInfo) << PeerLine("peer_returned", "target", peer);
        } else {  // its stream has just broken
          closing_.push_back(target->client);
          targets_.erase(target);
          fresh.push_back(peer);
        }
      }
    }
  }
  std::vector<std::shared_ptr<VerifyClient>> made;
  made.reserve(fresh.size());
  for (const PeerAddress& peer : fresh) made.push_back(make_client_(peer));
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    for (const auto& client : made) {
      TANDEM_LOG(kInfo) << PeerLine("peer_found", "target", client->target());
      targets_.emplace_back(client, Ejection(options_.ejection_min, options_.ejection_max,
                                             options_.seed + ++targets_made_));
    }
    std::list<Target> ordered;
    for (const PeerAddress& peer : list.peers) {
      const auto target = Find(peer);
      TANDEM_CHECK(target != targets_.end()) << peer.address << " is there twice";
      ordered.splice(ordered.end(), targets_, target);
    }
    for (Target& target : targets_) {
      if (std::exchange(target.leaving, true)) continue;
      changed = true;
      target.client->Reopen(false);
      TANDEM_LOG(kInfo) << PeerLine("peer_leaving", "target", target.client->target())
                               .Add("sequences", target.client->sequences());
    }
    ordered.splice(ordered.end(), targets_);
    targets_.swap(ordered);
    if (changed) {
      told = Serve();
      for (auto& events : AllInLine()) told.push_back(std::move(events));
    }
  }
  for (const auto& client : made) client->Start(weak_from_this());
  CloseLeft();
  Tell(told);
}

// Those that are leaving and have nothing to do any more. Nobody is placed at one meanwhile: it is taken
// out first.
void TargetPool::CloseLeft() {
  std::vector<std::shared_ptr<VerifyClient>> closed;
  std::vector<std::shared_ptr<VerifyClient>> forgotten;  // after the lock
  {
    concurrency::MutexLock lock(mutex_);
    for (auto target = targets_.begin(); target != targets_.end();) {
      if (!target->leaving || target->client->sequences() > 0) {
        ++target;
        continue;
      }
      TANDEM_LOG(kInfo) << PeerLine("peer_left", "target", target->client->target());
      if (auto welcome = target->client->welcome()) last_welcome_ = std::move(welcome);
      closed.push_back(target->client);
      target = targets_.erase(target);
    }
    closing_.insert(closing_.end(), closed.begin(), closed.end());
    const auto ended = std::partition(closing_.begin(), closing_.end(),
                                      [](const auto& client) { return !client->ended(); });
    std::move(ended, closing_.end(), std::back_inserter(forgotten));
    closing_.erase(ended, closing_.end());
  }
  for (const auto& client : closed) client->Close("no name resolves to it any more");
}

void TargetPool::Stop() {
  std::vector<std::shared_ptr<VerifyClient>> clients;
  {
    concurrency::MutexLock setting(setting_);
    concurrency::MutexLock lock(mutex_);
    stopped_ = true;
    clients = closing_;
    for (const Target& target : targets_) clients.push_back(target.client);
  }
  for (const auto& client : clients) client->Close("the orchestrator is stopping");
  for (const auto& client : clients) client->Stop();
}

std::list<TargetPool::Target>::iterator TargetPool::Find(const PeerAddress& peer) {
  return std::find_if(targets_.begin(), targets_.end(),
                      [&](const Target& target) { return target.client->target() == peer; });
}

// ---- ejection ----

void TargetPool::CountGood(Target& target) {
  const uint64_t good = target.client->pace()->good();
  if (good == target.good) return;
  target.good = good;
  target.faults = 0;
  target.ejection.Worked();
}

// One that was ejected and has done nothing good since is ejected for the next fault.
void TargetPool::CountFault(Target& target) {
  CountGood(target);
  if (++target.faults < kFaultsInARow) return;
  Eject(target, absl::StrCat(target.faults, " faults in a row, with no good verdict between"));
}

void TargetPool::Eject(Target& target, const std::string& reason) {
  const absl::Duration now = clock_.Now();
  CountGood(target);
  if (target.ejection.Ejected(now)) return;
  target.ejection.Failed(now);
  const absl::Duration left = target.ejection.until() - now;
  TANDEM_LOG(kWarning) << PeerLine("peer_ejected", "target", target.client->target())
                              .Add("reason", reason)
                              .Add("for", absl::Trunc(left, absl::Milliseconds(1)));
  timers_.After(left, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->OnEjectionOver();
  });
}

// ---- for people ----

absl::Status TargetPool::Ready() const {
  std::vector<std::string> problems;
  bool none_fits = true;
  concurrency::MutexLock lock(mutex_);
  for (const Target& target : targets_) {
    absl::Status ready = target.client->Ready();
    if (ready.ok()) return ready;
    problems.emplace_back(ready.message());
    none_fits = none_fits && ready.code() == absl::StatusCode::kFailedPrecondition;
  }
  problems.insert(problems.end(), problems_.begin(), problems_.end());
  none_fits = none_fits && !problems.empty() && problems_.empty();
  if (problems.empty()) problems.emplace_back(kNoAddress);
  const std::string all = absl::StrJoin(problems, "; ");
  return none_fits ? absl::FailedPreconditionError(all) : absl::UnavailableError(all);
}

std::optional<v1::Welcome> TargetPool::welcome() const {
  concurrency::MutexLock lock(mutex_);
  std::optional<v1::Welcome> first;
  for (const Target& target : targets_) {
    std::optional<v1::Welcome> welcome = target.client->welcome();
    if (target.client->Ready().ok()) return welcome;
    if (!first.has_value()) first = std::move(welcome);
  }
  return first.has_value() ? first : last_welcome_;
}

std::vector<v1::Peer> TargetPool::Peers() const {
  concurrency::MutexLock lock(mutex_);
  std::vector<v1::Peer> peers;
  peers.reserve(targets_.size());
  const absl::Duration now = clock_.Now();
  for (const Target& target : targets_) {
    v1::Peer& peer = peers.emplace_back(target.client->Describe());
    peer.set_leaving(target.leaving);
    peer.set_ejected(target.ejection.Ejected(now) && target.client->pace()->good() == target.good);
    peer.set_ejections(target.ejection.count());
  }
  return peers;
}

}  // namespace tandem::orchestrator
