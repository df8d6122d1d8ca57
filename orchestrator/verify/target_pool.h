// All targets, and which request goes to which.
//
// There is one client for each address that SetPeers names. A target whose address is not named any more
// is leaving: what runs there runs on while its stream lives, and then it is closed and forgotten. If the
// address is named again before that, it is an ordinary target again.
//
// A session without a target stands in line, by priority, then by the request's arrival. Whenever
// something changes (a target connects, reports free slots, loses a sequence; the time that it asked for
// is over) the line is served from its front: each session takes the best target that may have a slot for
// it. Best, in this order:
//
//   takes new sequences (is not leaving, did not say DRAINING on its stream)
//   is not ejected; where all are, the one whose time is over first
//   did not just fail this session
//   has the numerics that the text began with (equal numerics, equal bits)
//   has the shorter queue of two drawn at random (peers/chooser.h): rows reported as waiting and ours that
//   were sent since, then our sequences there
//
// Only targets of the session's model are considered at all. One of the lower of the first two sorts is
// taken only when there is none of the higher: a full target is worth waiting for.
//
// Ejected (peers/ejection.h) is a target when a Step's watchdog gave its stream up, and when it failed
// sessions kFaultsInARow times with no good verdict between. A good verdict ends it; a new stream does not:
// a target whose device hangs greets as politely as any. Sessions that are at a target when its faults
// eject it stay until it fails them, too.
//
// Slots: how many sequences a target may take is known from its last report, less what was placed there
// since; unknown before the first report. After NO_SLOT it is none, until a report says otherwise, a
// sequence of ours ends there, or the time is over that it asked for; then one session tries.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/peers/chooser.h"
#include "orchestrator/peers/ejection.h"
#include "orchestrator/peers/peer_address.h"
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
  static constexpr uint32_t kFaultsInARow = 3;

  // With no target yet. `timers` and `clock` outlive Stop.
  TargetPool(MakeVerifyClient make_client, concurrency::Timers& timers,
             const concurrency::Clock& clock, TargetPoolOptions options);
  ~TargetPool() override;

  // The targets that there are from now on. Nothing after Stop.
  void SetPeers(const PeerList& list);
  // Ends all streams, and waits for their ends, those of targets that have left, too; not from an event.
  void Stop();

  // `events` may be called from any thread, and hands over to the request's strand. Sessions are in the
  // order of their making: that is a request's arrival.
  std::unique_ptr<VerifySession> NewSession(std::shared_ptr<VerifyEvents> events,
                                            SessionNeeds needs);

  // OK: at least one fitting target is connected. Else why not; FAILED_PRECONDITION when none fits.
  absl::Status Ready() const;
  // Of the first target, in the list's order, that is connected; else of the first that ever was; else of
  // one that has left.
  std::optional<v1::Welcome> welcome() const;
  // In the list's order; then those that are leaving.
  std::vector<v1::Peer> Peers() const;
  size_t waiting_sessions() const;  // in line

 private:
  class Session;
  static constexpr absl::string_view kNoAddress = "no address of a target is known yet";
  using EventsList = std::vector<std::shared_ptr<VerifyEvents>>;

  struct Target {
    Target(std::shared_ptr<VerifyClient> its_client, Ejection its_ejection)
        : client(std::move(its_client)), ejection(its_ejection) {}

    const std::shared_ptr<VerifyClient> client;
    bool leaving = false;
    Ejection ejection;
    uint64_t good = 0;    // verdicts, when they were looked at last
    uint32_t faults = 0;  // with no good verdict between

    // What is known for one stream.
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
    absl::Duration ejected_until;  // zero: it is not
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
  void OnEjectionOver();

  Seat Seek(uint64_t id);
  std::shared_ptr<VerifyClient::Link> LinkOf(uint64_t id) const;
  void Leave(uint64_t id, std::optional<LeaveCause> cause, absl::Duration retry_after);
  void Remove(uint64_t id);
  void GiveUp(uint64_t incarnation, const std::string& reason);

  // Who comes and goes (target_members.cc).
  std::list<Target>::iterator Find(const PeerAddress& peer) TANDEM_REQUIRES(mutex_);
  void CloseLeft();
  // Counts the good verdicts since the last call.
  static void CountGood(Target& target);
  void CountFault(Target& target) TANDEM_REQUIRES(mutex_);
  void Eject(Target& target, const std::string& reason) TANDEM_REQUIRES(mutex_);

  // Serves the line; returns who is to be told.
  EventsList Serve() TANDEM_REQUIRES(mutex_);
  std::vector<View> Views() TANDEM_REQUIRES(mutex_);
  bool TakeSeat(SessionState& session, std::vector<View>& views) TANDEM_REQUIRES(mutex_);
  Seat WhyNot(const SessionState& session) TANDEM_REQUIRES(mutex_);
  EventsList AllInLine() const TANDEM_REQUIRES(mutex_);
  // Null: that stream is not the present one, as far as the line knows.
  Target* Of(uint64_t incarnation) TANDEM_REQUIRES(mutex_);
  static void Tell(const EventsList& told);

  const MakeVerifyClient make_client_;
  concurrency::Timers& timers_;
  const concurrency::Clock& clock_;
  const TargetPoolOptions options_;

  concurrency::Mutex setting_;  // one SetPeers at a time; taken before mutex_

  mutable concurrency::Mutex mutex_;
  std::list<Target> targets_ TANDEM_GUARDED_BY(mutex_);  // those that are leaving come last
  // Closed; forgotten when their streams have ended.
  std::vector<std::shared_ptr<VerifyClient>> closing_ TANDEM_GUARDED_BY(mutex_);
  std::vector<std::string> problems_ TANDEM_GUARDED_BY(mutex_);  // of names without an address
  std::optional<v1::Welcome> last_welcome_ TANDEM_GUARDED_BY(mutex_);  // of one that has left
  bool stopped_ TANDEM_GUARDED_BY(mutex_) = false;
  uint64_t targets_made_ TANDEM_GUARDED_BY(mutex_) = 0;
  Chooser chooser_ TANDEM_GUARDED_BY(mutex_);
  uint64_t last_session_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, SessionState> sessions_ TANDEM_GUARDED_BY(mutex_);
  std::set<Place> line_ TANDEM_GUARDED_BY(mutex_);
  absl::Duration retry_after_ TANDEM_GUARDED_BY(mutex_) = absl::Milliseconds(50);
  bool timer_set_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::orchestrator
