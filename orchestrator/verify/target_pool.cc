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
  bool OfferSlot() override { return pool_->OfferSlot(id_); }
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
      line_(options.seed) {}

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

void TargetPool::OnTargetLoad(base::Incarnation incarnation, FreeRoom free) {
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    TargetSet::Target* target = targets_.Of(incarnation);
    if (target == nullptr) return;
    target->notes.Reported(free, clock_.Now() + retry_after_);
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
    id = line_.Add(std::move(events), std::move(needs));
  }
  return std::make_unique<Session>(shared_from_this(), id);
}

TargetPool::Assignment TargetPool::Seek(uint64_t id) {
  Assignment assignment;
  EventsList told;
  std::shared_ptr<Link> dead;  // freed after the lock
  {
    concurrency::MutexLock lock(mutex_);
    TargetLine::Session& session = line_.At(id);
    if (session.link != nullptr && !session.link->alive()) dead = std::move(session.link);
    if (session.link == nullptr) {
      line_.Join(id);
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
    TargetLine::Session& session = line_.At(id);
    const bool waited = line_.Leave(id);
    left = std::move(session.link);
    if (waited) told = Serve();  // it may have kept room from others
  }
  if (left == nullptr) return Tell(told);
  LeaveTarget(id, std::move(left), cause, retry_after);
}

void TargetPool::LeaveTarget(uint64_t id, std::shared_ptr<Link> left,
                             std::optional<LeaveCause> cause, absl::Duration retry_after) {
  const base::Incarnation incarnation = left->incarnation();
  int64_t room = 0;
  {
    concurrency::MutexLock lock(mutex_);
    TargetLine::Session& session = line_.At(id);
    if (cause != LeaveCause::kLost || left->alive()) session.sequence.reset();
    room = RoomAt(session.target, session.needs.length, session.needs.max_nodes);
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
        // A report of enough room is no reason to come back at once if it came with the refusal.
        session.past.small_until = target->notes.may_have_room(room) ? until : clock_.Now();
        target->notes.AskFrom(until);
      } else {
        target->notes.Full(until);
      }
    }
  }
  if (cause == LeaveCause::kNoSlot) {
    left->Park();
    {
      // It seeks next, and that serves the line. Served now, those behind would take its room.
      concurrency::MutexLock lock(mutex_);
      line_.At(id).parked = std::move(left);
    }
    return CloseLeft();  // it was perhaps the last at a target that is leaving
  }
  left.reset();  // the closing goes out before any Step that takes the slot
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    TargetSet::Target* target = targets_.Of(incarnation);
    if (target != nullptr) target->notes.Freed(room);
    told = Serve();
  }
  CloseLeft();
  Tell(told);
}

void TargetPool::Remove(uint64_t id) {
  Leave(id, std::nullopt, absl::ZeroDuration());
  std::shared_ptr<VerifyEvents> released;  // after the lock
  concurrency::MutexLock lock(mutex_);
  released = line_.Remove(id);
}

bool TargetPool::OfferSlot(uint64_t id) {
  concurrency::MutexLock lock(mutex_);
  line_.Offer(id);
  return !line_.empty();
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
  if (line_.empty()) return {};
  const concurrency::Instant now = clock_.Now();
  std::vector<TargetView> views = targets_.Views(now, retry_after_);
  EventsList told = line_.Serve(views, now, now + retry_after_);
  if (!line_.empty() && !views.empty() && !timer_set_) {
    timer_set_ = true;
    timers_.After(retry_after_, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->OnTimer();
    });
  }
  return told;
}

void TargetPool::AddAllInLine(EventsList& told) const {
  for (auto& events : line_.All()) told.push_back(std::move(events));
}

void TargetPool::Tell(const EventsList& told) {
  EventsList wanted;
  {
    std::vector<std::shared_ptr<Link>> left;  // freed after the lock
    concurrency::MutexLock lock(mutex_);
    left = line_.TakeLeft();
    wanted = line_.TakeOffers();
  }
  for (const auto& events : told) events->OnVerifyReady();
  for (const auto& events : wanted) events->OnSlotWanted();
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

uint32_t TargetPool::max_length(const std::string& model_id) const {
  concurrency::MutexLock lock(mutex_);
  return targets_.MaxLength(model_id);
}

size_t TargetPool::waiting_sessions() const {
  concurrency::MutexLock lock(mutex_);
  return line_.size();
}

}  // namespace tandem::orchestrator
