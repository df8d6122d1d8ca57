// Decides when a request may begin. At most `max_active` requests are active. Further ones wait in
// a bounded line: higher priority first, then the order of arrival. Each waits only for as long as
// it can still be of use.
//
//   Ask ──▶ active ──Leave──▶ its place goes to the first of the line
//    │        ▲
//    ├──▶ waiting ── its time is over ──▶ RESOURCE_EXHAUSTED
//    │        ├───── Leave (cancelled) ──▶ gone
//    │        └───── Drain ──▶ UNAVAILABLE
//    └──▶ refused: RESOURCE_EXHAUSTED (the line is full), UNAVAILABLE (draining)
//
// RESOURCE_EXHAUSTED has RetryInfo: when the line will have moved past those that wait now, as fast
// as it moved lately (line_pace.h).
//
// Lower priorities get no share of their own. Under a steady stream of higher ones they wait until
// their time is over and are then refused.
//
// Invariant: nobody waits while a place is free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/strand.h"
#include "orchestrator/generate/line_pace.h"

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

  // Asks for a place. `id` is chosen by the caller and never used twice. `deadline` is a time of
  // the clock, or infinite. The wait ends a little before the deadline: by a tenth of the time
  // left, at most by kAnswerTime. So the client hears why, before its own library ends the call at
  // the deadline.
  void Ask(uint64_t id, uint32_t priority, concurrency::Instant deadline, Decided decided);

  // Gives the place back or leaves the line. If another thread has begun a call of `decided`, that
  // call may still come after Leave; no other may. Does nothing for an id that has neither a place
  // nor a turn.
  void Leave(uint64_t id);

  // Turns away all that wait, and all that ask from now on.
  void Drain();

  size_t active() const;
  size_t waiting() const;

  static constexpr absl::Duration kAnswerTime = absl::Milliseconds(200);

 private:
  struct Turn {
    uint32_t priority = 0;
    uint64_t arrival = 0;
    bool operator<(const Turn& other) const {
      return priority != other.priority ? priority > other.priority : arrival < other.arrival;
    }
  };
  struct Waiting {
    uint64_t id = 0;
    concurrency::Instant since;
    concurrency::TimerId timer = 0;
    Decided decided;
  };
  using Line = std::map<Turn, Waiting>;

  absl::Duration Patience(concurrency::Instant deadline, concurrency::Instant now) const;
  void SetTimer(uint64_t id, absl::Duration patience);
  void Expire(uint64_t id);
  Waiting TakeFromLine(Line::iterator it) TANDEM_REQUIRES(mutex_);
  void Tell(Waiting waiting, absl::Status status);

  const AdmissionOptions options_;
  concurrency::Timers& timers_;
  const concurrency::Clock& clock_;

  // Decisions are told one after another. Without this, a request that ends as it begins, and so
  // lets in the next one, would call that one's `decided` inside its own.
  concurrency::Strand told_;

  mutable concurrency::Mutex mutex_;
  bool draining_ TANDEM_GUARDED_BY(mutex_) = false;
  uint64_t last_arrival_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::unordered_set<uint64_t> active_ TANDEM_GUARDED_BY(mutex_);
  Line line_ TANDEM_GUARDED_BY(mutex_);
  LinePace pace_ TANDEM_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Turn> turns_
      TANDEM_GUARDED_BY(mutex_);  // the turns of those in line_
};

}  // namespace tandem::orchestrator
