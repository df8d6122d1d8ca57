// Keeps the one Verify stream to one target, which all requests there share. It opens the stream,
// greets and watches it. When the stream ends, it tells all its sequences, and opens a new stream
// after a back-off with a higher incarnation, while it lives and is not told otherwise. SequenceMux
// decides what flows on the stream, and TargetPool which request goes to which target.
//
// A target ends a stream for a newer one of the same client id. Our newest stream is ended so only
// if somebody else has our id: a replica with the same --client-id, or another VerifyClient of this
// process if two addresses are one target. Both would fence each other for ever. So this client
// takes an id that nobody else has, and says so in the log.
//
//   state      meaning                                   next
//   kDown      waits for the back-off                    kGreeting
//   kGreeting  Hello sent; the Welcome is to come        kUp, kDown
//   kUp        Steps flow                                kDown
//   kStopped   closed, or ended with no leave to reopen  -
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "common/transport/stream.h"
#include "orchestrator/peers/connector.h"
#include "orchestrator/peers/peer_address.h"
#include "orchestrator/peers/retry_delay.h"
#include "orchestrator/verify/sequence_mux.h"
#include "orchestrator/verify/target_info.h"
#include "orchestrator/verify/target_pace.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/internal/v1/target.pb.h"

namespace tandem::orchestrator {

struct VerifyClientOptions {
  PeerAddress target;
  internal::v1::Hello hello;  // without the incarnation
  absl::Duration backoff_min = absl::Milliseconds(20);
  absl::Duration backoff_max = absl::Seconds(2);
  absl::Duration welcome_within = absl::Seconds(5);  // a peer that has not greeted is gone
  uint64_t jitter_seed = 0;
  size_t max_batch_bytes = (1 << 20) - 4096;  // most bytes of Steps in a message
};

// Hears of a target's stream, on any thread, with no lock held. News of a stream may come late;
// VerifyClient::info has the present state.
class TargetListener {
 public:
  virtual ~TargetListener() = default;
  virtual void OnTargetUp(const TargetInfo& target) = 0;
  virtual void OnTargetDown(base::Incarnation incarnation) = 0;
  // Called before the verdicts that came with the report.
  virtual void OnTargetLoad(base::Incarnation incarnation, FreeRoom free) = 0;
};

// Thread-safe. No lock is held while events are called.
class VerifyClient : public std::enable_shared_from_this<VerifyClient> {
 public:
  // `timers` and `clock` outlive Stop.
  VerifyClient(VerifyClientOptions options,
               OpenStream<internal::v1::TargetRequest, internal::v1::TargetReply> open,
               CheckWelcome check, concurrency::Timers& timers, const concurrency::Clock& clock);

  // `listener` may be empty.
  void Start(std::weak_ptr<TargetListener> listener);
  // Ends the stream and waits for its end. Nothing is opened again. Do not call it from an event.
  void Stop();
  // Same as Stop, without waiting: ended() says when it is over. Do not call it while there are
  // sequences, because they would not hear of it.
  void Close(const std::string& reason);
  // Sets whether a stream that ends is opened again. Returns whether there is or will be a stream.
  bool Reopen(bool reopen);
  // There is no stream, and there will be none.
  bool ended() const;

  // Opens a sequence of this number on the stream of this incarnation; null if that stream is gone.
  // The number was not used on this stream. `events` hear of its verdicts and of the stream's end,
  // and hand over to the request's strand.
  std::unique_ptr<SequenceMux::Link> Open(base::Incarnation incarnation, base::SequenceId sequence,
                                          std::shared_ptr<VerifyEvents> events);
  // Ends a stream that is silent. Its sessions hear of that. No sequence is opened on it any more.
  void GiveUp(base::Incarnation incarnation, const std::string& reason);

  // OK if a fitting target is connected. Else the error says why not.
  absl::Status Ready() const;
  // The connected target; nullopt if there is no usable stream.
  std::optional<TargetInfo> info() const;
  // The Welcome of the target that was connected last; nullopt before the first.
  std::optional<v1::Welcome> welcome() const;
  uint32_t sequences() const;  // sequences on the present stream
  const std::shared_ptr<TargetPace>& pace() const { return pace_; }
  const PeerAddress& target() const { return options_.target; }
  v1::Peer Describe() const;

 private:
  class Handler;
  enum class State : uint8_t { kDown, kGreeting, kUp, kStopped };

  void OpenStreamAgain();
  void OnReply(const std::shared_ptr<SequenceMux>& mux, internal::v1::TargetReply reply);
  void OnWelcome(base::Incarnation incarnation, const v1::Welcome& welcome);
  void OnChecked(base::Incarnation incarnation, const v1::Welcome& welcome, absl::Status fits);
  void OnDone(base::Incarnation incarnation, absl::Status status);
  void OnWelcomeTimeout(base::Incarnation incarnation);
  void NotReady(absl::Status why) TANDEM_REQUIRES(mutex_);
  void TakeUniqueClientId() TANDEM_REQUIRES(mutex_);
  bool IsUp() const TANDEM_REQUIRES(mutex_);
  TargetInfo Info() const TANDEM_REQUIRES(mutex_);
  void OnVerdicts(const std::shared_ptr<SequenceMux>& mux, const internal::v1::Verdicts& verdicts);
  void OnLoad(base::Incarnation incarnation, const v1::Load& load);

  const VerifyClientOptions options_;
  const OpenStream<internal::v1::TargetRequest, internal::v1::TargetReply> open_;
  const CheckWelcome check_;
  concurrency::Timers& timers_;
  const concurrency::Clock& clock_;
  const std::shared_ptr<TargetPace> pace_ = std::make_shared<TargetPace>();
  std::weak_ptr<TargetListener> listener_;  // set by Start, before there is any stream

  mutable concurrency::Mutex mutex_;  // taken before the mux's
  State state_ TANDEM_GUARDED_BY(mutex_) = State::kDown;
  base::Incarnation incarnation_ TANDEM_GUARDED_BY(mutex_){};
  std::string client_id_ TANDEM_GUARDED_BY(mutex_);  // options_.hello's, or one of its own
  std::shared_ptr<SequenceMux::Sink> sink_ TANDEM_GUARDED_BY(mutex_);
  std::shared_ptr<SequenceMux> mux_
      TANDEM_GUARDED_BY(mutex_);                        // the stream's; null before the first
  std::string given_up_ TANDEM_GUARDED_BY(mutex_);      // why we ended the stream ourselves
  bool stream_open_ TANDEM_GUARDED_BY(mutex_) = false;  // OnDone has not come yet
  bool reopen_ TANDEM_GUARDED_BY(mutex_) = true;
  concurrency::CondVar stream_ended_;
  std::optional<v1::Welcome> welcome_ TANDEM_GUARDED_BY(mutex_);
  std::optional<v1::Load> load_ TANDEM_GUARDED_BY(mutex_);  // the last report, with the last curve
  absl::Status not_ready_ TANDEM_GUARDED_BY(mutex_);
  RetryDelay backoff_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
