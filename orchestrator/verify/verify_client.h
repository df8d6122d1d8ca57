// The one Verify stream to a target, shared by all requests.
//
// Steps that get ready while a write is under way go out together in the next Batch, up to 1 MiB;
// there is no timer. Verdicts find their request by sequence. When the stream ends all sessions are
// told, and it is opened again, with back-off and a higher incarnation, for as long as this object
// lives.
//
//   state      meaning                                   next
//   kDown      waits for the back-off                    kGreeting
//   kGreeting  Hello sent; the Welcome is to come        kUp, kDown
//   kUp        Steps flow                                kDown
//   kStopped   Stop was called                           -
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "common/rpc/stream.h"
#include "orchestrator/peers/connector.h"
#include "orchestrator/peers/retry_delay.h"
#include "orchestrator/verify/target_pace.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/v1/target.pb.h"

namespace tandem::orchestrator {

struct VerifyClientOptions {
  std::string target_name;  // for messages: its address
  v1::Hello hello;          // incarnation: the first one
  absl::Duration backoff_least = absl::Milliseconds(20);
  absl::Duration backoff_most = absl::Seconds(2);
  absl::Duration welcome_within = absl::Seconds(5);  // a peer that does not greet is not there
  uint64_t jitter_seed = 0;
  size_t most_batch_bytes = (1 << 20) - 4096;  // of the Steps in a message; the rest is framing
};

// Thread-safe. No lock is held while a session's events are called.
class VerifyClient : public std::enable_shared_from_this<VerifyClient> {
 public:
  // `timers` and `clock` outlive Stop.
  VerifyClient(VerifyClientOptions options, OpenStream<v1::TargetRequest, v1::TargetReply> open,
               CheckWelcome check, concurrency::Timers& timers, const concurrency::Clock& clock);

  void Start();
  // Ends the stream and waits for its end; nothing is opened again. Not from an event.
  void Stop();

  // `events` may be called from any thread, and hands over to the request's strand.
  std::unique_ptr<VerifySession> NewSession(std::shared_ptr<VerifyEvents> events);

  // OK: connected to a target that fits. Else why not.
  absl::Status Ready() const;
  // Of the target that was connected last; empty before the first.
  std::optional<v1::Welcome> welcome() const;
  TargetPace& pace() { return pace_; }

 private:
  class Handler;
  class Session;
  enum class State : uint8_t { kDown, kGreeting, kUp, kStopped };
  using EventsList = std::vector<std::shared_ptr<VerifyEvents>>;

  void Open();
  void OnReply(uint64_t incarnation, v1::TargetReply reply);
  void OnWelcome(uint64_t incarnation, const v1::Welcome& welcome);
  void OnChecked(uint64_t incarnation, const v1::Welcome& welcome, absl::Status fits);
  void OnVerdicts(uint64_t incarnation, const v1::Verdicts& verdicts);
  void OnWritten(uint64_t incarnation);
  void OnDone(uint64_t incarnation, absl::Status status);
  void OnWelcomeTimeout(uint64_t incarnation);
  void Flush();
  v1::TargetRequest NextBatch() TANDEM_REQUIRES(mutex_);
  void NotReady(absl::Status why) TANDEM_REQUIRES(mutex_);
  EventsList AllEvents() const TANDEM_REQUIRES(mutex_);
  TargetInfo Info() const TANDEM_REQUIRES(mutex_);

  void Submit(uint64_t incarnation, uint64_t session, VerifyStep step);
  void CloseSequence(uint64_t session);
  void Remove(uint64_t session);
  void GiveUp(uint64_t incarnation, const std::string& reason);

  const VerifyClientOptions options_;
  const OpenStream<v1::TargetRequest, v1::TargetReply> open_;
  const CheckWelcome check_;
  concurrency::Timers& timers_;
  const concurrency::Clock& clock_;
  TargetPace pace_;
  std::atomic<int64_t> last_heard_ns_{0};

  struct SessionState {
    std::shared_ptr<VerifyEvents> events;
    uint64_t sequence = 0;  // 0: none yet
  };

  mutable concurrency::Mutex mutex_;
  State state_ TANDEM_GUARDED_BY(mutex_) = State::kDown;
  uint64_t incarnation_ TANDEM_GUARDED_BY(mutex_);
  std::shared_ptr<rpc::Sink<v1::TargetRequest>> sink_ TANDEM_GUARDED_BY(mutex_);
  std::string given_up_ TANDEM_GUARDED_BY(mutex_);      // why we ended the stream ourselves
  bool stream_open_ TANDEM_GUARDED_BY(mutex_) = false;  // its OnDone has not come
  concurrency::CondVar stream_ended_;
  int unwritten_ TANDEM_GUARDED_BY(mutex_) = 0;            // messages given to the sink
  std::vector<v1::Step> steps_ TANDEM_GUARDED_BY(mutex_);  // for the next batches
  std::vector<uint64_t> closings_ TANDEM_GUARDED_BY(mutex_);
  uint64_t last_id_ TANDEM_GUARDED_BY(mutex_) = 0;  // of sessions and sequences
  std::map<uint64_t, SessionState> sessions_ TANDEM_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> session_of_ TANDEM_GUARDED_BY(mutex_);  // sequence -> session
  std::optional<v1::Welcome> welcome_ TANDEM_GUARDED_BY(mutex_);
  absl::Status not_ready_ TANDEM_GUARDED_BY(mutex_);
  RetryDelay backoff_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
