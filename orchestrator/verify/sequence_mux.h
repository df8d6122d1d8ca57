// The sequences on one Verify stream: it decides which Steps go out together, and finds the
// sequence of each verdict.
//
// When a Batch goes out is said by peers/write_turns.h. A verdict finds its request by its
// sequence. A stream that is opened in place of a broken one has a mux of its own, so nothing of
// one stream is ever taken for the other's.
//
//   state      meaning                                     takes sequences   sends Steps
//   kGreeting  Hello sent; the Welcome is to come          no                no
//   kUp        in use                                      yes               yes
//   kGivenUp   silent, its end is near                     no                yes
//   kOver      there is no stream any more                 no                no
//
// VerifyClient decides when the stream is opened, ended and given up.
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
#include "orchestrator/peers/write_turns.h"
#include "orchestrator/verify/step_batches.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/internal/v1/target.pb.h"

namespace tandem::orchestrator {

// Thread-safe. It calls the sink and the sessions' events with no lock held, and never calls its
// client. So the client may hold its own lock while it calls functions that call nobody (all except
// OnWritten and OnVerdicts).
class SequenceMux final : public SharedWriter, public std::enable_shared_from_this<SequenceMux> {
 public:
  using Sink = transport::Sink<internal::v1::TargetRequest>;
  using EventsList = std::vector<std::shared_ptr<VerifyEvents>>;

  // One request's sequence. Thread-safe, but only one thread may call it at a time.
  class Link {
   public:
    Link(std::shared_ptr<SequenceMux> mux, base::SequenceId sequence)
        : mux_(std::move(mux)), sequence_(sequence) {}
    ~Link() { mux_->Remove(sequence_); }  // frees the sequence
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    // The target refused the sequence for want of a slot or room. It holds nothing of it, and it
    // knows it by its number, under which it may be tried again. Until then it does not count.
    void Park() { mux_->SetParked(sequence_, true); }
    void Unpark() { mux_->SetParked(sequence_, false); }
    // The target has taken it, since it was opened or unparked: a verdict came, and no NO_SLOT.
    bool taken() const { return mux_->taken(sequence_); }
    // Does nothing once the stream is gone.
    void Submit(VerifyStep step) { mux_->Submit(sequence_, std::move(step)); }
    bool alive() const { return mux_->alive(); }
    base::Incarnation incarnation() const { return mux_->incarnation(); }
    base::SequenceId sequence() const { return sequence_; }
    // When the stream last brought verdicts of any sequence; zero: never.
    concurrency::Instant last_heard() const { return mux_->last_heard(); }

   private:
    const std::shared_ptr<SequenceMux> mux_;
    const base::SequenceId sequence_;
  };

  // The mux of a stream whose Hello is the first message to be written. No two streams share an
  // `incarnation`.
  SequenceMux(base::Incarnation incarnation, size_t max_batch_bytes)
      : incarnation_(incarnation), max_batch_bytes_(max_batch_bytes) {}

  // ---- the stream's life ----
  void Begin(std::shared_ptr<Sink> sink);  // before Up, and before the Hello is sent
  void Up();
  void GivenUp();
  // Nothing is sent after it. Returns whose sequences are there, so that the client can tell them.
  EventsList End();

  // ---- its sequences ----
  // Opens a sequence of this number; null if the stream takes none. `events` hear of its verdicts.
  // A number is used once on a stream: a late verdict of an older sequence would be taken for the
  // new one's.
  std::unique_ptr<Link> Open(base::SequenceId sequence, std::shared_ptr<VerifyEvents> events);
  uint32_t sequences() const;  // without those that are parked
  bool alive() const;          // the stream takes sequences
  base::Incarnation incarnation() const { return incarnation_; }
  concurrency::Instant last_heard() const {
    return concurrency::Instant(absl::Nanoseconds(last_heard_ns_.load(std::memory_order_relaxed)));
  }

  // ---- what the stream says ----
  void OnWritten();  // a message has been
  // The stream brought a message.
  void Heard(concurrency::Instant now) {
    last_heard_ns_.store(absl::ToInt64Nanoseconds(now.since_epoch()), std::memory_order_relaxed);
  }
  void OnVerdicts(const internal::v1::Verdicts& verdicts);

 private:
  enum class State : uint8_t { kGreeting, kUp, kGivenUp, kOver };

  struct Sequence {
    std::shared_ptr<VerifyEvents> events;
    bool begun = false;  // a Step of it was sent: the target may hold it, or know that it waits
    bool parked = false;
    bool taken = false;  // since it was opened or unparked
  };

  void Submit(base::SequenceId sequence, VerifyStep step);
  void SetParked(base::SequenceId sequence, bool parked);
  bool taken(base::SequenceId sequence) const;
  void Remove(base::SequenceId sequence);
  void Flush() override;
  bool Sends() const TANDEM_REQUIRES(mutex_) {
    return state_ == State::kUp || state_ == State::kGivenUp;
  }

  const base::Incarnation incarnation_;
  const size_t max_batch_bytes_;
  std::atomic<int64_t> last_heard_ns_{0};

  mutable concurrency::Mutex mutex_;
  State state_ TANDEM_GUARDED_BY(mutex_) = State::kGreeting;
  std::shared_ptr<Sink> sink_ TANDEM_GUARDED_BY(mutex_);
  WriteTurns turns_ TANDEM_GUARDED_BY(mutex_);
  StepBatches batches_ TANDEM_GUARDED_BY(mutex_);
  std::map<base::SequenceId, Sequence> sequences_ TANDEM_GUARDED_BY(mutex_);  // those with a Link
  uint32_t parked_ TANDEM_GUARDED_BY(mutex_) = 0;                             // of these
};

}  // namespace tandem::orchestrator
