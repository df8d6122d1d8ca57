#include "orchestrator/verify/target_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace tandem::orchestrator {
namespace {

constexpr absl::Duration kMinRetry = absl::Milliseconds(1);
constexpr absl::Duration kMaxRetry = absl::Seconds(1);

}  // namespace

class TargetPool::Session final : public VerifySession {
 public:
  Session(std::shared_ptr<TargetPool> pool, uint64_t id) : pool_(std::move(pool)), id_(id) {}
  ~Session() override { pool_->Remove(id_); }

  Seat Seek() override { return pool_->Seek(id_); }
  void Leave(LeaveCause cause, absl::Duration retry_after) override {
    pool_->Leave(id_, cause, retry_after);
  }
  void Close() override { pool_->Leave(id_, std::nullopt, absl::ZeroDuration()); }
  void Submit(uint64_t incarnation, VerifyStep step) override {
    auto link = pool_->LinkOf(id_);
    if (link != nullptr && link->incarnation() == incarnation) link->Submit(std::move(step));
  }
  void GiveUp(uint64_t incarnation, const std::string& reason) override {
    pool_->GiveUp(incarnation, reason);
  }
  absl::Duration last_heard() const override {
    auto link = pool_->LinkOf(id_);
    return link == nullptr ? absl::ZeroDuration() : link->last_heard();
  }

 private:
  const std::shared_ptr<TargetPool> pool_;
  const uint64_t id_;
};

TargetPool::TargetPool(MakeVerifyClient make_client, concurrency::Timers& timers,
                       const concurrency::Clock& clock, TargetPoolOptions options)
    : make_client_(std::move(make_client)),
      timers_(timers),
      clock_(clock),
      options_(options),
      chooser_(options.seed) {}

TargetPool::~TargetPool() = default;

// ---- what the targets say ----

void TargetPool::OnTargetUp(const TargetInfo& /*target*/) {
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    told = Serve();
    // The others may learn that there is a target, or that none will ever fit.
    for (auto& events : AllInLine()) told.push_back(std::move(events));
  }
  Tell(told);
}

void TargetPool::OnTargetDown(uint64_t /*incarnation*/) {
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    told = AllInLine();  // there may be none left to wait for
  }
  CloseLeft();
  Tell(told);
}

void TargetPool::OnTargetLoad(uint64_t incarnation, uint32_t free_slots) {
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    Target* target = Of(incarnation);
    if (target == nullptr) return;
    target->slots = free_slots;
    target->full_until = clock_.Now() + retry_after_;
    told = Serve();
  }
  Tell(told);
}

void TargetPool::OnTimer() {
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    timer_set_ = false;
    told = Serve();
  }
  Tell(told);
}

void TargetPool::OnEjectionOver() {
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    told = Serve();
  }
  Tell(told);
}

// ---- what the sessions do ----

std::unique_ptr<VerifySession> TargetPool::NewSession(std::shared_ptr<VerifyEvents> events,
                                                      SessionNeeds needs) {
  uint64_t id;
  {
    concurrency::MutexLock lock(mutex_);
    id = ++last_session_;
    SessionState& session = sessions_[id];
    session.events = std::move(events);
    session.needs = std::move(needs);
  }
  return std::make_unique<Session>(shared_from_this(), id);
}

Seat TargetPool::Seek(uint64_t id) {
  Seat seat;
  EventsList told;
  std::shared_ptr<VerifyClient::Link> dead;  // freed after the lock
  {
    concurrency::MutexLock lock(mutex_);
    SessionState& session = sessions_.at(id);
    if (session.link != nullptr && !session.link->alive()) dead = std::move(session.link);
    if (session.link == nullptr) {
      line_.insert(PlaceOf(id, session));
      told = Serve();
      std::erase(told, session.events);
    }
    if (session.link != nullptr) {
      seat.kind = Seat::Kind::kTarget;
      seat.target = session.target;
    } else {
      seat = WhyNot(session);
    }
  }
  Tell(told);
  return seat;
}

void TargetPool::Leave(uint64_t id, std::optional<LeaveCause> cause, absl::Duration retry_after) {
  EventsList told;
  std::shared_ptr<VerifyClient::Link> left;
  {
    concurrency::MutexLock lock(mutex_);
    SessionState& session = sessions_.at(id);
    line_.erase(PlaceOf(id, session));
    left = std::move(session.link);
    if (left == nullptr) return;
    Target* target = Of(left->incarnation());
    if (cause == LeaveCause::kFault) {
      session.failed = left->incarnation();
      if (target != nullptr && left->alive()) CountFault(*target);
    }
    if (target != nullptr && cause == LeaveCause::kDraining) target->draining = true;
    if (target != nullptr && cause == LeaveCause::kNoSlot) {
      retry_after_ = std::clamp(retry_after, kMinRetry, kMaxRetry);
      if (target->slots.value_or(0) > 0) {
        session.small = left->incarnation();
        session.small_until = clock_.Now() + retry_after_;
      } else {
        target->slots = 0;
        target->full_until = clock_.Now() + retry_after_;
      }
    }
  }
  const uint64_t incarnation = left->incarnation();
  left.reset();  // the closing goes out before any Step that takes the slot
  {
    concurrency::MutexLock lock(mutex_);
    Target* target = Of(incarnation);
    if (target != nullptr && target->slots.has_value() && cause != LeaveCause::kNoSlot) {
      ++*target->slots;
    }
    told = Serve();
  }
  CloseLeft();
  Tell(told);
}

void TargetPool::Remove(uint64_t id) {
  Leave(id, std::nullopt, absl::ZeroDuration());
  std::shared_ptr<VerifyEvents> released;  // after the lock
  concurrency::MutexLock lock(mutex_);
  auto it = sessions_.find(id);
  released = std::move(it->second.events);
  sessions_.erase(it);
  lock.Unlock();
}

void TargetPool::GiveUp(uint64_t incarnation, const std::string& reason) {
  std::vector<std::shared_ptr<VerifyClient>> clients;
  {
    concurrency::MutexLock lock(mutex_);
    for (const Target& target : targets_) clients.push_back(target.client);
    Target* target = Of(incarnation);
    // The first to find it silent; a stream is given up once.
    if (target != nullptr && target->client->info().has_value()) Eject(*target, reason);
  }
  for (const auto& client : clients) client->GiveUp(incarnation, reason);  // one has this stream
}

std::shared_ptr<VerifyClient::Link> TargetPool::LinkOf(uint64_t id) const {
  concurrency::MutexLock lock(mutex_);
  return sessions_.at(id).link;
}

size_t TargetPool::waiting_sessions() const {
  concurrency::MutexLock lock(mutex_);
  return line_.size();
}

void TargetPool::Tell(const EventsList& told) {
  for (const auto& events : told) events->OnVerifyReady();
}

}  // namespace tandem::orchestrator
