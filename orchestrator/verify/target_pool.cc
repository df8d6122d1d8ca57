#include "orchestrator/verify/target_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/messages/handshake.h"
#include "orchestrator/peers/peer_line.h"

namespace tandem::orchestrator {
namespace {

constexpr absl::Duration kMinRetry = absl::Milliseconds(1);
constexpr absl::Duration kMaxRetry = absl::Seconds(1);

}  // namespace

// A session holds the link of its target, so that it sends Steps without the pool's lock. The pool
// holds the link, too: it shows whether the session is at a target and whether the stream is alive.
class TargetPool::Session final : public VerifySession {
 public:
  Session(std::shared_ptr<TargetPool> pool, uint64_t id) : pool_(std::move(pool)), id_(id) {}
  ~Session() override {
    link_.reset();
    pool_->Remove(id_);
  }

  SeekResult Seek() override {
    link_.reset();
    Assignment assignment = pool_->Seek(id_);
    link_ = std::move(assignment.link);
    return std::move(assignment.result);
  }
  void Leave(LeaveCause cause, absl::Duration retry_after) override {
    link_.reset();
    pool_->Leave(id_, cause, retry_after);
  }
  void Close() override {
    link_.reset();
    pool_->Leave(id_, std::nullopt, absl::ZeroDuration());
  }
  void Submit(base::Incarnation incarnation, VerifyStep step) override {
    if (link_ != nullptr && link_->incarnation() == incarnation) link_->Submit(std::move(step));
  }
  void GiveUp(base::Incarnation incarnation, const std::string& reason) override {
    pool_->GiveUp(incarnation, reason);
  }
  concurrency::Instant last_heard() const override {
    return link_ == nullptr ? concurrency::Instant::InfinitePast() : link_->last_heard();
  }

 private:
  const std::shared_ptr<TargetPool> pool_;
  const uint64_t id_;
  std::shared_ptr<Link> link_;  // null: at no target
};

TargetPool::TargetPool(MakeVerifyClient make_client, concurrency::Timers& timers,
                       const concurrency::Clock& clock, TargetPoolOptions options)
    : make_client_(std::move(make_client)),
      timers_(timers),
      clock_(clock),
      targets_(options.ejection_min, options.ejection_max, options.seed),
      // Above the numbers of an older process with the same client id, whose sequences may linger.
      last_sequence_{messages::NextIncarnation()},
      chooser_(options.seed) {}

TargetPool::~TargetPool() = default;

// ---- which targets there are ----

void TargetPool::SetPeers(const PeerList& list) {
  concurrency::MutexLock setting(setting_);
  TargetSet::Peers::News news;
  {
    concurrency::MutexLock lock(mutex_);
    if (stopped_) return;
    news = targets_.Compare(list);
  }
  TargetSet::Clients made;
  made.reserve(news.fresh.size());
  for (const PeerAddress& peer : news.fresh) made.push_back(make_client_(peer));
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    const bool some_leave = targets_.Arrange(list, news.fresh, made);
    if (some_leave || news.returned) {
      told = Serve();
      AddAllInLine(told);
    }
  }
  for (const auto& client : made) client->Start(weak_from_this());
  CloseLeft();
  Tell(told);
}

// No session is sent to such a target meanwhile, because it is taken out first.
void TargetPool::CloseLeft() {
  TargetSet::Left left;
  {
    concurrency::MutexLock lock(mutex_);
    left = targets_.TakeLeft();
  }
  for (const auto& client : left.to_close) client->Close("no name resolves to it any more");
}

void TargetPool::Stop() {
  TargetSet::Clients clients;
  {
    concurrency::MutexLock setting(setting_);
    concurrency::MutexLock lock(mutex_);
    stopped_ = true;
    clients = targets_.clients();
    clients.insert(clients.end(), targets_.closing().begin(), targets_.closing().end());
  }
  for (const auto& client : clients) client->Close("the orchestrator is stopping");
  for (const auto& client : clients) client->Stop();
}

// ---- what the targets say ----

void TargetPool::OnTargetUp(const TargetInfo& /*target*/) {
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    told = Serve();
    // The others may learn that there is a target, or that none will ever fit.
    AddAllInLine(told);
  }
  Tell(told);
}

void TargetPool::OnTargetDown(base::Incarnation /*incarnation*/) {
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    AddAllInLine(told);  // there may be none left to wait for
  }
  CloseLeft();
  Tell(told);
}

void TargetPool::OnTargetLoad(base::Incarnation incarnation, uint32_t free_slots) {
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    TargetSet::Target* target = targets_.Of(incarnation);
    if (target == nullptr) return;
    target->notes.Reported(free_slots, clock_.Now() + retry_after_);
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

TargetPool::Assignment TargetPool::Seek(uint64_t id) {
  Assignment assignment;
  EventsList told;
  std::shared_ptr<Link> dead;  // freed after the lock
  {
    concurrency::MutexLock lock(mutex_);
    SessionState& session = sessions_.at(id);
    if (session.link != nullptr && !session.link->alive()) dead = std::move(session.link);
    if (session.link == nullptr) {
      line_.Join(id, session.needs.priority);
      told = Serve();
      std::erase(told, session.events);
    }
    assignment.link = session.link;
    if (session.link != nullptr) {
      assignment.result.kind = SeekResult::Kind::kTarget;
      assignment.result.target = session.target;
    } else {
      assignment.result = targets_.WhyNot(session.needs.model_id);
    }
  }
  Tell(told);
  return assignment;
}

void TargetPool::Leave(uint64_t id, std::optional<LeaveCause> cause, absl::Duration retry_after) {
  EventsList told;
  std::shared_ptr<Link> left;
  {
    concurrency::MutexLock lock(mutex_);
    SessionState& session = sessions_.at(id);
    line_.Leave(id, session.needs.priority);
    left = std::move(session.link);
    if (left == nullptr) return;
    if (cause != LeaveCause::kLost || left->alive()) session.sequence.reset();
    const base::Incarnation incarnation = left->incarnation();
    TargetSet::Target* target = targets_.Of(incarnation);
    if (cause == LeaveCause::kFault) {
      session.past.failed = incarnation;
      if (target != nullptr && left->alive() && target->health.Fault()) {
        Eject(*target, absl::StrCat(target->health.faults(),
                                    " faults in a row, with no good verdict between"));
      }
    }
    if (target != nullptr && cause == LeaveCause::kDraining) target->notes.Drains();
    if (target != nullptr && cause == LeaveCause::kNoSlot) {
      retry_after_ = std::clamp(retry_after, kMinRetry, kMaxRetry);
      const concurrency::Instant until = clock_.Now() + retry_after_;
      if (target->notes.surely_has()) {
        session.past.small = incarnation;
        session.past.small_until = until;
      } else {
        target->notes.Full(until);
      }
    }
  }
  const base::Incarnation incarnation = left->incarnation();
  left.reset();  // the closing goes out before any Step that takes the slot
  {
    concurrency::MutexLock lock(mutex_);
    TargetSet::Target* target = targets_.Of(incarnation);
    if (target != nullptr && cause != LeaveCause::kNoSlot) target->notes.Freed();
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

void TargetPool::GiveUp(base::Incarnation incarnation, const std::string& reason) {
  TargetSet::Clients clients;
  {
    concurrency::MutexLock lock(mutex_);
    clients = targets_.clients();
    TargetSet::Target* target = targets_.Of(incarnation);
    // The first session that finds the stream silent gives it up. A stream is given up once.
    if (target != nullptr && target->client->info().has_value()) Eject(*target, reason);
  }
  for (const auto& client : clients) client->GiveUp(incarnation, reason);  // one has this stream
}

void TargetPool::Eject(TargetSet::Target& target, const std::string& reason) {
  const concurrency::Instant now = clock_.Now();
  if (!target.health.Eject(now)) return;
  const absl::Duration left = target.health.until() - now;
  TANDEM_LOG(kWarning) << PeerLine("peer_ejected", "target", target.peer)
                              .Add("reason", reason)
                              .Add("for", absl::Trunc(left, absl::Milliseconds(1)));
  timers_.After(left, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->OnEjectionOver();
  });
}

// ---- the line ----

TargetPool::EventsList TargetPool::Serve() {
  EventsList told;
  if (line_.empty()) return told;
  const concurrency::Instant now = clock_.Now();
  std::vector<TargetView> views = targets_.Views(now, retry_after_);
  const auto any_slot = [&views] {
    return std::any_of(views.begin(), views.end(),
                       [](const TargetView& view) { return view.slots->may_take(); });
  };
  if (any_slot()) {
    for (uint64_t id : line_.Sessions()) {
      SessionState& session = sessions_.at(id);
      if (!AssignTarget(session, views, now)) continue;
      told.push_back(session.events);
      line_.Leave(id, session.needs.priority);
      if (!any_slot()) break;
    }
  }
  if (!line_.empty() && !views.empty() && !timer_set_) {
    timer_set_ = true;
    timers_.After(retry_after_, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->OnTimer();
    });
  }
  return told;
}

bool TargetPool::AssignTarget(SessionState& session, std::vector<TargetView>& views,
                              concurrency::Instant now) {
  TargetSearch search(session.needs, session.past, views, now);
  while (TargetView* view = search.Next(chooser_)) {
    if (!session.sequence.has_value()) session.sequence = base::Advance(last_sequence_);
    session.link = view->client->Open(view->info.incarnation, *session.sequence, session.events);
    if (session.link == nullptr) continue;  // its stream has just ended
    session.target = view->info;
    if (session.needs.model_id.empty()) session.needs.model_id = view->info.model_id;
    if (session.needs.numerics_id.empty()) session.needs.numerics_id = view->info.numerics_id;
    ++view->sequences;
    view->slots->Took();
    return true;
  }
  return false;
}

void TargetPool::AddAllInLine(EventsList& told) const {
  for (uint64_t id : line_.Sessions()) told.push_back(sessions_.at(id).events);
}

void TargetPool::Tell(const EventsList& told) {
  for (const auto& events : told) events->OnVerifyReady();
}

// ---- for people ----

absl::Status TargetPool::Ready() const {
  concurrency::MutexLock lock(mutex_);
  return targets_.Ready();
}

std::optional<v1::Welcome> TargetPool::welcome() const {
  concurrency::MutexLock lock(mutex_);
  return targets_.welcome();
}

std::vector<v1::Peer> TargetPool::Peers() const {
  concurrency::MutexLock lock(mutex_);
  return targets_.Describe(clock_.Now());
}

size_t TargetPool::waiting_sessions() const {
  concurrency::MutexLock lock(mutex_);
  return line_.size();
}

}  // namespace tandem::orchestrator
