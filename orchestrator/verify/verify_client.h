// The one Verify stream to one target, shared by all requests that are there.
//
// Steps that get ready while a write is under way go out together in the next Batch, up to 1 MiB;
// there is no timer. Verdicts find their request by sequence. When the stream ends all its links are
// told, and it is opened again, with back-off and a higher incarnation, for as long as this object
// lives and is not told otherwise. Which request goes to which target is TargetPool's business.
//
//   state      meaning                                   next
//   kDown      waits for the back-off                    kGreeting
//   kGreeting  Hello sent; the Welcome is to come        kUp, kDown
//   kUp        Steps flow                                kDown
//   kStopped   closed, or ended with no leave to reopen  -
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
#include "common/transport/stream.h"
#include "orchestrator/peers/connector.h"
#include "orchestrator/peers/peer_address.h"
#include "orchestrator/peers/retry_delay.h"
#include "orchestrator/verify/step_batches.h"
#include "orchestrator/verify/target_pace.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/v1/target.pb.h"

namespace tandem::orchestrator {

struct VerifyClientOptions {
  PeerAddress target;
  v1::Hello hello;  // but for the incarnation
  absl::Duration backoff_min = absl::Milliseconds(20);
  absl::Duration backoff_max = absl::Seconds(2);
  absl::Duration welcome_within = absl::Seconds(5);  // a peer that does not greet is not there
  uint64_t jitter_seed = 0;
  size_t max_batch_bytes = (1 << 20) - 4096;  // of the Steps in a message; the rest is framing
};

// Hears of a target's stream, from any thread, with no lock held. News of one stream may be told late:
// VerifyClient::info says what is so now.
class TargetListener {
 public:
  virtual ~TargetListener() = default;
  virtual void OnTargetUp(const TargetInfo& target) = 0;
  virtual void OnTargetDown(uint64_t incarnation) = 0;
  // Before the verdicts that came with it.
  virtual void OnTargetLoad(uint64_t incarnation, uint32_t free_slots) = 0;
};

// Thread-safe. No lock is held while events are called.
class VerifyClient : public std::enable_shared_from_this<VerifyClient> {
 public:
  // One request's sequence on one stream. Thread-safe; calls to one come one at a time, though.
  class Link {
   public:
    Link(std::shared_ptr<VerifyClient> client, uint64_t incarnation, uint64_t id)
        : client_(std::move(client)), incarnation_(incarnation), id_(id) {}
    ~Link() { client_->Remove(id_); }  // frees the sequence

    // Goes nowhere once the stream is gone.
    void Submit(VerifyStep step) { client_->Submit(incarnation_, id_, std::move(step)); }
    bool alive() const { return client_->Alive(incarnation_); }
    uint64_t incarnation() const { return incarnation_; }
    absl::Duration last_heard() const;

   private:
    const std::shared_ptr<VerifyClient> client_;
    const uint64_t incarnation_;
    const uint64_t id_;
  };

  // `timers` and `clock` outlive Stop.
  VerifyClient(VerifyClientOptions options, OpenStream<v1::TargetRequest, v1::TargetReply> open,
               CheckWelcome check, concurrency::Timers& timers, const concurrency::Clock& clock);

  // `listener` may be empty.
  void Start(std::weak_ptr<TargetListener> listener);
  // Ends the stream and waits for its end; nothing is opened again. Not from an event.
  void Stop();
  // The same without waiting: ended() says when it is over. Not while it has sequences, which would not
  // hear of it.
  void Close(const std::string& reason);
  // False: a stream that ends is not opened again from now on; true: it is. Returns whether there is, or
  // will be, a stream to speak of.
  bool Reopen(bool reopen);
  // There is no stream, and there will be none.
  bool ended() const;

  // A new sequence on the stream of this incarnation; null when it is not there any more. `events` hear
  // of its verdicts and of the stream's end, and hand over to the request's strand.
  std::unique_ptr<Link> Open(uint64_t incarnation, std::shared_ptr<VerifyEvents> events);
  // The stream is silent: ends it. Its sessions hear of it; nothing is opened on it any more.
  void GiveUp(uint64_t incarnation, const std::string& reason);

  // OK: connected to a target that fits. Else why not.
  absl::Status Ready() const;
  // The target that is connected; none: there is no stream to use.
  std::optional<TargetInfo> info() const;
  // Of the target that was connected last; empty before the first.
  std::optional<v1::Welcome> welcome() const;
  uint32_t sequences() const;  // links to the present stream
  const std::shared_ptr<TargetPace>& pace() const { return pace_; }
  const PeerAddress& target() const { return options_.target; }
  v1::Peer Describe() const;

 private:
  class Handler;
  enum class State : uint8_t { kDown, kGreeting, kUp, kStopped };
  using EventsList = std::vector<std::shared_ptr<VerifyEvents>>;

  struct LinkState {
    std::shared_ptr<VerifyEvents> events;
    uint64_t incarnation = 0;
    uint64_t sequence = 0;  // 0: none yet
  };

  // The stream's life (verify_client.cc).
  void OpenStreamAgain();
  void OnReply(uint64_t incarnation, v1::TargetReply reply);
  void OnWelcome(uint64_t incarnation, const v1::Welcome& welcome);
  void OnChecked(uint64_t incarnation, const v1::Welcome& welcome, absl::Status fits);
  void OnDone(uint64_t incarnation, absl::Status status);
  void OnWelcomeTimeout(uint64_t incarnation);
  void NotReady(absl::Status why) TANDEM_REQUIRES(mutex_);
  bool IsUp() const TANDEM_REQUIRES(mutex_);
  EventsList EventsOf(uint64_t incarnation) const TANDEM_REQUIRES(mutex_);
  TargetInfo Info() const TANDEM_REQUIRES(mutex_);

  // Steps out, verdicts in (verify_steps.cc).
  void Submit(uint64_t incarnation, uint64_t link, VerifyStep step);
  void Remove(uint64_t link);
  bool Alive(uint64_t incarnation) const;
  void Flush();
  void OnWritten(uint64_t incarnation);
  void OnVerdicts(uint64_t incarnation, const v1::Verdicts& verdicts);
  void OnLoad(uint64_t incarnation, const v1::Load& load);

  const VerifyClientOptions options_;
  const OpenStream<v1::TargetRequest, v1::TargetReply> open_;
  const CheckWelcome check_;
  concurrency::Timers& timers_;
  const concurrency::Clock& clock_;
  const std::shared_ptr<TargetPace> pace_ = std::make_shared<TargetPace>();
  std::weak_ptr<TargetListener> listener_;  // set by Start, before there is any stream
  std::atomic<int64_t> last_heard_ns_{0};

  mutable concurrency::Mutex mutex_;
  State state_ TANDEM_GUARDED_BY(mutex_) = State::kDown;
  uint64_t incarnation_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<transport::Sink<v1::TargetRequest>> sink_ TANDEM_GUARDED_BY(mutex_);
  std::string given_up_ TANDEM_GUARDED_BY(mutex_);      // why we ended the stream ourselves
  bool stream_open_ TANDEM_GUARDED_BY(mutex_) = false;  // its OnDone has not come
  bool reopen_ TANDEM_GUARDED_BY(mutex_) = true;
  concurrency::CondVar stream_ended_;
  int unwritten_ TANDEM_GUARDED_BY(mutex_) = 0;  // messages given to the sink
  StepBatches batches_ TANDEM_GUARDED_BY(mutex_);
  uint64_t last_id_ TANDEM_GUARDED_BY(mutex_) = 0;  // of links and sequences
  std::map<uint64_t, LinkState> links_ TANDEM_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> link_of_ TANDEM_GUARDED_BY(mutex_);  // sequence -> link
  std::optional<v1::Welcome> welcome_ TANDEM_GUARDED_BY(mutex_);
  std::optional<v1::Load> load_ TANDEM_GUARDED_BY(mutex_);  // the last report, with the last curve
  absl::Status not_ready_ TANDEM_GUARDED_BY(mutex_);
  RetryDelay backoff_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
