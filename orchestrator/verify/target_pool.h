// All targets, and which request goes to which.
//
// A session without a target stands in line, by priority, then by the request's arrival. Whenever
// something changes (a target connects, reports free slots, loses a sequence; the time that it asked for
// is over) the line is served from its front: each session takes the best target that may have a slot for
// it. Best, in this order:
//
//   takes new sequences (did not say DRAINING on its stream)
//   did not just fail this session
//   has the numerics that the text began with (equal numerics, equal bits)
//   has the shorter queue of two drawn at random (peers/chooser.h): rows reported as waiting and ours that
//   were sent since, then our sequences there
//
// Only targets of the session's model are considered at all.
//
// Slots: how many sequences a target may take is known from its last report, less what was placed there
// since; unknown before the first report. After NO_SLOT it is none, until a report says otherwise, a
// sequence of ours ends there, or the time is over that it asked for; then one session tries.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/peers/chooser.h"
#include "orchestrator/verify/verify_client.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/v1/tokens.pb.h"

namespace tandem::orchestrator {

// What a request needs of its targets.
struct SessionNeeds {
  std::string model_id;     // empty: that of its first target
  std::string numerics_id;  // preferred; empty: that of its first target
  uint32_t priority = 0;    // 0 to 10: higher ones stand before lower ones in line
};

// Thread-safe. No lock is held while a session's events are called.
class TargetPool final : public TargetListener, public std::enable_shared_from_this<TargetPool> {
 public:
  // At least one client. `timers` and `clock` outlive Stop. `seed`: of the draws.
  TargetPool(std::vector<std::shared_ptr<VerifyClient>> clients, concurrency::Timers& timers,
             const concurrency::Clock& clock, uint64_t seed);
  ~TargetPool() override;

  void Start();
  void Stop();  // ends all streams, and waits for their ends; not from an event

  // `events` may be called from any thread, and hands over to the request's strand. Sessions are in the
  // order of their making: that is a request's arrival.
  std::unique_ptr<VerifySession> NewSession(std::shared_ptr<VerifyEvents> events,
                                            SessionNeeds needs);

  // OK: at least one fitting target is connected. Else why not; FAILED_PRECONDITION when none fits.
  absl::Status Ready() const;
  // Of the first target, in the flags' order, that is connected; else of the first that ever was.
  std::optional<v1::Welcome> welcome() const;
  // In the flags' order.
  std::vector<v1::Peer> Peers() const;
  size_t waiting_sessions() const;  // in line

 private:
  class Session;
  using EventsList = std::vector<std::shared_ptr<VerifyEvents>>;

  // What is known of a target's slots, for one stream.
  struct Target {
    std::shared_ptr<VerifyClient> client;
    uint64_t incarnation = 0;
    bool draining = false;
    std::optional<uint32_t> slots;  // that may be free; empty: unknown
    absl::Duration full_until;      // when 0 slots: one may try then
  };
  struct SessionState {
    std::shared_ptr<VerifyEvents> events;
    SessionNeeds needs;
    std::shared_ptr<VerifyClient::Link> link;  // null: at no target
    TargetInfo target;                         // of the link
    uint64_t failed = 0;                       // the stream that failed it last
    uint64_t small =
        0;  // a stream that has slots, but had none for this session (too little memory)
    absl::Duration small_until;
  };
  // A target as it is while the line is served.
  struct View {
    Target* target;
    TargetInfo info;
    uint64_t queued_rows;
    uint32_t sequences;
  };
  // Higher priority first, then older sessions.
  using Place = std::pair<int64_t, uint64_t>;
  static Place PlaceOf(uint64_t id, const SessionState& session) {
    return {-int64_t{session.needs.priority}, id};
  }

  void OnTargetUp(const TargetInfo& target) override;
  void OnTargetDown(uint64_t incarnation) override;
  void OnTargetLoad(uint64_t incarnation, uint32_t free_slots) override;
  void OnTimer();

  Seat Seek(uint64_t id);
  std::shared_ptr<VerifyClient::Link> LinkOf(uint64_t id) const;
  void Leave(uint64_t id, std::optional<LeaveCause> cause, absl::Duration retry_after);
  void Remove(uint64_t id);
  void GiveUp(uint64_t incarnation, const std::string& reason);

  // Serves the line; returns who is to be told.
  EventsList Serve() TANDEM_REQUIRES(mutex_);
  std::vector<View> Views() TANDEM_REQUIRES(mutex_);
  bool TakeSeat(SessionState& session, std::vector<View>& views) TANDEM_REQUIRES(mutex_);
  Seat WhyNot(const SessionState& session) TANDEM_REQUIRES(mutex_);
  EventsList AllInLine() const TANDEM_REQUIRES(mutex_);
  Target* Of(uint64_t incarnation) TANDEM_REQUIRES(mutex_);
  static void Tell(const EventsList& told);

  concurrency::Timers& timers_;
  const concurrency::Clock& clock_;

  mutable concurrency::Mutex mutex_;
  std::vector<Target> targets_ TANDEM_GUARDED_BY(mutex_);  // never grows or shrinks
  Chooser chooser_ TANDEM_GUARDED_BY(mutex_);
  uint64_t last_session_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, SessionState> sessions_ TANDEM_GUARDED_BY(mutex_);
  std::set<Place> line_ TANDEM_GUARDED_BY(mutex_);
  absl::Duration retry_after_ TANDEM_GUARDED_BY(mutex_) = absl::Milliseconds(50);
  bool timer_set_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::orchestrator
