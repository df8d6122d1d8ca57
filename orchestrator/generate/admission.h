// Decides when a request may begin. At most `max_active` requests take a place. Further ones wait
// in a bounded line: higher priority first, then clients round-robin (request/waiting_line.h). Each
// waits only for as long as it can still be of use. In a full line the client that has the most
// gives way.
//
//   Ask ──▶ active ──Leave, Pause──▶ its place goes to the first of the line
//    │        ▲
//    ├──▶ waiting ── its time is over ──▶ RESOURCE_EXHAUSTED
//    │        ├───── Leave (cancelled) ──▶ gone
//    │        └───── Drain ──▶ UNAVAILABLE
//    └──▶ refused: RESOURCE_EXHAUSTED (the line is full), UNAVAILABLE (draining)
//
// RESOURCE_EXHAUSTED has RetryInfo: when the line will have moved past those that wait now, as fast
// as it moved lately (line_pace.h).
//
// A request that pauses for its reader gives its place away and takes it back when it goes on, at
// once. Until others have left there may be more than max_active. Nothing that has begun is
// refused.
//
// Lower priorities get no share of their own. Under a steady stream of higher ones they wait until
// their time is over and are then refused.
//
// Invariant: nobody waits while a place is free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/strand.h"
#include "orchestrator/generate/line_pace.h"
#include "orchestrator/request/waiting_line.h"

namespace tandem::orchestrator {

struct AdmissionOptions {
  uint32_t max_active = 256;                    // at least 1
  uint32_t max_waiting = 1024;                  // 0: nobody waits
  absl::Duration patience = absl::Seconds(60);  // of a request without a deadline
};

// Thread-safe. Made by std::make_shared. `timers` and `clock` outlive it.
class Admission : public std::enable_shared_from_this<Admission> {
 public:
  // The outcome of Ask. It is called once, unless Leave comes first. OK means that the request
  // holds a place until Leave; an error says why it was turned away. `waited` is the time since
  // Ask. It is called with no lock held, on any thread, maybe inside Ask. Calls come one after
  // another. It may call Leave and Ask.
  using Decided = absl::AnyInvocable<void(absl::Status status, absl::Duration waited)>;

  Admission(const AdmissionOptions& options, concurrency::Timers& timers,
            const concurrency::Clock& clock);

  // Asks for a place. `id` is chosen by the caller, never used twice, and rises with the order of
  // arrival. `client`: the connection that it came over. `deadline` is a time of
  // the clock, or infinite. The wait ends a little before the deadline: by a tenth of the time
  // left, at most by kAnswerTime. So the client hears why, before its own library ends the call at
  // the deadline.
  void Ask(uint64_t id, uint32_t priority, const std::string& client, concurrency::Instant deadline,
           Decided decided);

  // Gives the place back or leaves the line. If another thread has begun a call of `decided`, that
  // call may still come after Leave; no other may. Does nothing for an id that has neither a place
  // nor a turn.
  void Leave(uint64_t id);

  // The request waits for its reader, and goes on. Nothing for an id that has no place.
  void Pause(uint64_t id);
  void Resume(uint64_t id);

  // Turns away all that wait, and all that ask from now on.
  void Drain();

  size_t active() const;  // those that pause, too
  size_t waiting() const;

  static constexpr absl::Duration kAnswerTime = absl::Milliseconds(200);

 private:
  struct Waiting {
    concurrency::Instant since;
    concurrency::TimerId timer = 0;
    Decided decided;
  };

  absl::Status Full(concurrency::Instant now) const TANDEM_REQUIRES(mutex_);
  absl::Duration Patience(concurrency::Instant deadline, concurrency::Instant now) const;
  void SetTimer(uint64_t id, absl::Duration patience);
  void Expire(uint64_t id);
  size_t running() const TANDEM_REQUIRES(mutex_) { return active_.size() - paused_.size(); }
  // One of the line that gets a place, if there is one; its `decided` is null if not.
  Waiting AdmitNext() TANDEM_REQUIRES(mutex_);
  Waiting TakeFromLine(uint64_t id, bool had_turn) TANDEM_REQUIRES(mutex_);
  void Tell(Waiting waiting, absl::Status status);

  const AdmissionOptions options_;
  concurrency::Timers& timers_;
  const concurrency::Clock& clock_;

  // Decisions are told one after another. Without this, a request that ends as it begins, and so
  // lets in the next one, would call that one's `decided` inside its own.
  concurrency::Strand told_;

  mutable concurrency::Mutex mutex_;
  bool draining_ TANDEM_GUARDED_BY(mutex_) = false;
  std::unordered_set<uint64_t> active_ TANDEM_GUARDED_BY(mutex_);
  std::unordered_set<uint64_t> paused_ TANDEM_GUARDED_BY(mutex_);  // of those that are active
  WaitingLine line_ TANDEM_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Waiting> waiting_ TANDEM_GUARDED_BY(mutex_);  // those in line_
  LinePace pace_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
