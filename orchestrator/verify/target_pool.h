// All targets, and which request goes to which.
//
// A session without a target stands in line (slot_queue.h). Whenever something changes (a target
// connects, reports free slots, loses a sequence; the time that it asked for is over) the line is
// served from its front: each session takes the best target that may have a slot for it
// (seat_search.h).
//
// Which targets there are: target_set.h. What runs at one that is leaving runs on while its stream
// lives; then it is closed and forgotten.
//
// Locks: everything is under the pool's one mutex, which is held for as long as it takes to serve
// the line, and never while a session's events, a client's Close or the making of a client are
// called. It is taken when a session seeks, leaves or ends, when a stream comes or goes, and for
// each report; never for a Step or a verdict: a session holds the link that it sends them on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/peers/chooser.h"
#include "orchestrator/peers/peer_address.h"
#include "orchestrator/verify/seat_search.h"
#include "orchestrator/verify/sequence_mux.h"
#include "orchestrator/verify/slot_queue.h"
#include "orchestrator/verify/target_set.h"
#include "orchestrator/verify/verify_client.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/v1/tokens.pb.h"

namespace tandem::orchestrator {

// Makes the client of a target, not started yet. One call at a time.
using MakeVerifyClient = std::function<std::shared_ptr<VerifyClient>(const PeerAddress& peer)>;

struct TargetPoolOptions {
  absl::Duration ejection_min = absl::Seconds(1);
  absl::Duration ejection_max = absl::Seconds(30);
  uint64_t seed = 0;  // of the draws
};

// Thread-safe. No lock is held while a session's events are called.
class TargetPool final : public TargetListener, public std::enable_shared_from_this<TargetPool> {
 public:
  // With no target yet. `timers` and `clock` outlive Stop.
  TargetPool(MakeVerifyClient make_client, concurrency::Timers& timers,
             const concurrency::Clock& clock, TargetPoolOptions options);
  ~TargetPool() override;

  // The targets that there are from now on. Nothing after Stop.
  void SetPeers(const PeerList& list);
  // Ends all streams, and waits for their ends, those of targets that have left, too; not from an
  // event.
  void Stop();

  // `events` may be called from any thread, and hands over to the request's strand. Sessions are in
  // the order of their making: that is a request's arrival.
  std::unique_ptr<VerifySession> NewSession(std::shared_ptr<VerifyEvents> events,
                                            SessionNeeds needs);

  // OK: at least one fitting target is connected. Else why not; FAILED_PRECONDITION when none fits.
  absl::Status Ready() const;
  // Of the first target, in the list's order, that is connected; else of the first that ever was;
  // else of one that has left.
  std::optional<v1::Welcome> welcome() const;
  // In the list's order; then those that are leaving.
  std::vector<v1::Peer> Peers() const;
  size_t waiting_sessions() const;  // in line

 private:
  class Session;
  using Link = SequenceMux::Link;
  using EventsList = std::vector<std::shared_ptr<VerifyEvents>>;

  struct SessionState {
    std::shared_ptr<VerifyEvents> events;
    SessionNeeds needs;
    std::shared_ptr<Link> link;  // null: at no target
    TargetInfo target;           // of the link
    SessionPast past;
  };
  // What a session gets of a search: where it is, and the link to send on; null: at no target.
  struct Place {
    Seat seat;
    std::shared_ptr<Link> link;
  };

  void OnTargetUp(const TargetInfo& target) override;
  void OnTargetDown(base::Incarnation incarnation) override;
  void OnTargetLoad(base::Incarnation incarnation, uint32_t free_slots) override;
  void OnTimer();
  void OnEjectionOver();

  // Of sessions, by their numbers.
  Place Seek(uint64_t id);
  // The caller has given its link back.
  void Leave(uint64_t id, std::optional<LeaveCause> cause, absl::Duration retry_after);
  void Remove(uint64_t id);
  void GiveUp(base::Incarnation incarnation, const std::string& reason);

  void CloseLeft();
  void Eject(TargetSet::Target& target, const std::string& reason) TANDEM_REQUIRES(mutex_);
  // Serves the line; returns who is to be told.
  EventsList Serve() TANDEM_REQUIRES(mutex_);
  bool TakeSeat(SessionState& session, std::vector<TargetView>& views, concurrency::Instant now)
      TANDEM_REQUIRES(mutex_);
  void AddAllInLine(EventsList& told) const TANDEM_REQUIRES(mutex_);
  static void Tell(const EventsList& told);

  const MakeVerifyClient make_client_;
  concurrency::Timers& timers_;
  const concurrency::Clock& clock_;

  concurrency::Mutex setting_;  // one SetPeers at a time; taken before mutex_

  mutable concurrency::Mutex mutex_;
  TargetSet targets_ TANDEM_GUARDED_BY(mutex_);
  SlotQueue line_ TANDEM_GUARDED_BY(mutex_);
  std::map<uint64_t, SessionState> sessions_ TANDEM_GUARDED_BY(mutex_);
  uint64_t last_session_ TANDEM_GUARDED_BY(mutex_) = 0;
  Chooser chooser_ TANDEM_GUARDED_BY(mutex_);
  bool stopped_ TANDEM_GUARDED_BY(mutex_) = false;
  absl::Duration retry_after_ TANDEM_GUARDED_BY(mutex_) = absl::Milliseconds(50);
  bool timer_set_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::orchestrator
