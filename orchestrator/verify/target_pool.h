// Holds all targets and gives each session a target.
//
// A session without a target stands in line (target_line.h). The line is served from its front
// whenever something changes: a target connects, reports what is free or loses a sequence, or the
// time that it asked for is over.
//
// target_set.h decides which targets there are. Sessions at a target that is leaving go on while
// its stream lives. After that the target is closed and forgotten.
//
// The pool numbers the sequences of all its streams, so no two sessions share a number. A session
// whose stream is lost keeps the number for its next stream. What lingers of it at its target is
// found by the number. Every other new sequence gets a new number, so no number is used twice on a
// stream.
//
// Locks: the pool's one mutex guards everything. It is held while the line is served, and never
// during calls of a session's events or a client's Close, or while a client is made. It is taken
// when a session seeks, leaves or ends, when a stream comes or goes, and for each report. It is
// never taken for a Step or a verdict, because a session holds the link on which it sends them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/peers/peer_address.h"
#include "orchestrator/verify/target_line.h"
#include "orchestrator/verify/target_search.h"
#include "orchestrator/verify/target_set.h"
#include "orchestrator/verify/verify_client.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::orchestrator {

// Makes the client of a target. The client is not started. Only one call is made at a time.
using MakeVerifyClient = std::function<std::shared_ptr<VerifyClient>(const PeerAddress& peer)>;

struct TargetPoolOptions {
  absl::Duration ejection_min = absl::Seconds(1);
  absl::Duration ejection_max = absl::Seconds(30);
  uint64_t seed = 0;  // for the draws
};

// Thread-safe. No lock is held while a session's events are called.
class TargetPool final : public TargetListener, public std::enable_shared_from_this<TargetPool> {
 public:
  // The pool has no target yet. `timers` and `clock` outlive Stop.
  TargetPool(MakeVerifyClient make_client, concurrency::Timers& timers,
             const concurrency::Clock& clock, TargetPoolOptions options);
  ~TargetPool() override;

  // Sets the targets that exist from now on. Does nothing after Stop.
  void SetPeers(const PeerList& list);
  // Ends all streams and waits for their ends, those of targets that have left included. Do not
  // call it from an event.
  void Stop();

  // `events` is called on any thread and hands over to the request's strand. Sessions are ordered
  // by when they were made, which is the order of their requests' arrival; of one priority, clients
  // have turns.
  std::unique_ptr<VerifySession> NewSession(std::shared_ptr<VerifyEvents> events,
                                            SessionNeeds needs);

  // OK if at least one fitting target is connected. Else the error says why not;
  // FAILED_PRECONDITION means that none fits.
  absl::Status Ready() const;
  // The Welcome of the first connected target in the list's order; else of the first that was ever
  // connected; else of one that has left.
  std::optional<v1::Welcome> welcome() const;
  // In the list's order, followed by those that are leaving.
  std::vector<v1::Peer> Peers() const;
  // The most tokens that a text of this model may have at any target; 0: no target says.
  uint32_t max_length(const std::string& model_id) const;
  size_t waiting_sessions() const;  // sessions in line

 private:
  class Session;
  using Link = TargetLine::Link;
  using EventsList = TargetLine::EventsList;

  // The result of a search: the target, and the link to send on. A null link means that the session
  // is at no target.
  struct Assignment {
    SeekResult result;
    std::shared_ptr<Link> link;
  };

  void OnTargetUp(const TargetInfo& target) override;
  void OnTargetDown(base::Incarnation incarnation) override;
  void OnTargetLoad(base::Incarnation incarnation, FreeRoom free) override;
  void OnTimer();
  void OnEjectionOver();

  // A session is named by its number.
  Assignment Seek(uint64_t id);
  // The caller has given its link back.
  void Leave(uint64_t id, std::optional<LeaveCause> cause, absl::Duration retry_after);
  void LeaveTarget(uint64_t id, std::shared_ptr<Link> left, std::optional<LeaveCause> cause,
                   absl::Duration retry_after);
  void Remove(uint64_t id);
  bool OfferSlot(uint64_t id);
  void GiveUp(base::Incarnation incarnation, const std::string& reason);

  void CloseLeft();
  void Eject(TargetSet::Target& target, const std::string& reason) TANDEM_REQUIRES(mutex_);
  // Serves the line. Returns the sessions that must be told.
  EventsList Serve() TANDEM_REQUIRES(mutex_);
  void AddAllInLine(EventsList& told) const TANDEM_REQUIRES(mutex_);
  // Called after each Serve, without the lock.
  void Tell(const EventsList& told);

  const MakeVerifyClient make_client_;
  concurrency::Timers& timers_;
  const concurrency::Clock& clock_;

  concurrency::Mutex setting_;  // held by SetPeers, so one runs at a time; taken before mutex_

  mutable concurrency::Mutex mutex_;
  TargetSet targets_ TANDEM_GUARDED_BY(mutex_);
  TargetLine line_ TANDEM_GUARDED_BY(mutex_);
  bool stopped_ TANDEM_GUARDED_BY(mutex_) = false;
  absl::Duration retry_after_ TANDEM_GUARDED_BY(mutex_) = absl::Milliseconds(50);
  bool timer_set_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::orchestrator
