// The sequences on one Verify stream: which Steps go out together, and whose verdict is whose.
//
// Steps that get ready while a write is under way go out together in the next Batch, up to a limit;
// there is no timer. Verdicts find their request by sequence. A stream that broke has another mux
// than the one that is opened in its place, so nothing of one is ever taken for the other's.
//
//   state      meaning                                     takes sequences   sends Steps
//   kGreeting  Hello sent; the Welcome is to come          no                no
//   kUp        in use                                      yes               yes
//   kGivenUp   silent, its end is near                     no                yes
//   kOver      there is no stream any more                 no                no
//
// When it is opened, ended and given up is VerifyClient's business.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"
#include "common/concurrency/mutex.h"
#include "common/transport/stream.h"
#include "orchestrator/verify/step_batches.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/v1/target.pb.h"

namespace tandem::orchestrator {

// Thread-safe. It calls the sink and the sessions' events with no lock held, and never its client:
// so the client may hold its own lock while it calls what does neither (all but OnWritten and
// OnVerdicts).
class SequenceMux : public std::enable_shared_from_this<SequenceMux> {
 public:
  using Sink = transport::Sink<v1::TargetRequest>;
  using EventsList = std::vector<std::shared_ptr<VerifyEvents>>;

  // One request's sequence. Thread-safe; calls to one come one at a time, though.
  class Link {
   public:
    Link(std::shared_ptr<SequenceMux> mux, base::SequenceId sequence)
        : mux_(std::move(mux)), sequence_(sequence) {}
    ~Link() { mux_->Remove(sequence_); }  // frees the sequence
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    // Goes nowhere once the stream is gone.
    void Submit(VerifyStep step) { mux_->Submit(sequence_, std::move(step)); }
    bool alive() const { return mux_->alive(); }
    base::Incarnation incarnation() const { return mux_->incarnation(); }
    // When the stream last brought verdicts, of whichever sequence; zero: never.
    concurrency::Instant last_heard() const { return mux_->last_heard(); }

   private:
    const std::shared_ptr<SequenceMux> mux_;
    const base::SequenceId sequence_;
  };

  // Of a stream whose Hello is the first message to be written. `incarnation`: no two streams share
  // one.
  SequenceMux(base::Incarnation incarnation, size_t max_batch_bytes)
      : incarnation_(incarnation), max_batch_bytes_(max_batch_bytes) {}

  // ---- the stream's life ----
  void Begin(std::shared_ptr<Sink> sink);  // before Up, and before the Hello is sent
  void Up();
  void GivenUp();
  // Nothing is sent any more. Returns who has a sequence there, for the client to tell.
  EventsList End();

  // ---- its sequences ----
  // A new one; null when the stream takes none. `events` hear of its verdicts.
  std::unique_ptr<Link> Open(std::shared_ptr<VerifyEvents> events);
  uint32_t sequences() const;
  bool alive() const;  // it takes sequences
  base::Incarnation incarnation() const { return incarnation_; }
  concurrency::Instant last_heard() const {
    return concurrency::Instant(absl::Nanoseconds(last_heard_ns_.load(std::memory_order_relaxed)));
  }

  // ---- what the stream says ----
  void OnWritten();  // a message has been
  // It brought something.
  void Heard(concurrency::Instant now) {
    last_heard_ns_.store(absl::ToInt64Nanoseconds(now.since_epoch()), std::memory_order_relaxed);
  }
  void OnVerdicts(const v1::Verdicts& verdicts);

 private:
  enum class State : uint8_t { kGreeting, kUp, kGivenUp, kOver };

  struct Sequence {
    std::shared_ptr<VerifyEvents> events;
    bool begun = false;  // a Step of it was taken: the target may hold it
  };

  void Submit(base::SequenceId sequence, VerifyStep step);
  void Remove(base::SequenceId sequence);
  void Flush();
  bool Sends() const TANDEM_REQUIRES(mutex_) {
    return state_ == State::kUp || state_ == State::kGivenUp;
  }

  const base::Incarnation incarnation_;
  const size_t max_batch_bytes_;
  std::atomic<int64_t> last_heard_ns_{0};

  mutable concurrency::Mutex mutex_;
  State state_ TANDEM_GUARDED_BY(mutex_) = State::kGreeting;
  std::shared_ptr<Sink> sink_ TANDEM_GUARDED_BY(mutex_);
  int unwritten_ TANDEM_GUARDED_BY(mutex_) = 1;  // messages given to the sink; the Hello
  StepBatches batches_ TANDEM_GUARDED_BY(mutex_);
  base::SequenceId last_sequence_ TANDEM_GUARDED_BY(mutex_){};
  std::map<base::SequenceId, Sequence> sequences_ TANDEM_GUARDED_BY(mutex_);  // those with a Link
};

}  // namespace tandem::orchestrator
