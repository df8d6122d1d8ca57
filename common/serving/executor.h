// The single thread of a service that computes and that owns streams and sequences.
//
//   gRPC's threads ──▶ EventQueue ──▶ RunOnce: take in ──▶ Compute ──▶ sinks
//
// This class handles events, the life of streams, draining and shutdown. The service derives from
// it and defines requests, the state of a stream and the computation.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "common/serving/event_queue.h"
#include "common/serving/load_meter.h"
#include "common/serving/stream_events.h"
#include "common/serving/stream_table.h"

namespace tandem::serving {

struct ExecutorOptions {
  const concurrency::Clock* clock = nullptr;  // not owned
  size_t max_waiting = 0;                     // as EventQueue's, like the next one
  std::string too_many;
  std::string shut_down;  // message to clients when the service ends their streams
};

// `StreamT`: derives from BaseStream. `RequestT`: a decoded message of a session.
template <typename StreamT, typename RequestT>
class Executor {
 public:
  using Stream = StreamT;
  using Reply = typename Stream::Reply;
  using Request = RequestT;
  using Event = StreamEvent<Reply, Request>;

  // Creates no thread: its owner calls Run on one, and a test calls RunOnce.
  explicit Executor(ExecutorOptions options)
      : clock_(*options.clock),
        meter_(clock_),
        shut_down_(absl::UnavailableError(options.shut_down)),
        queue_(options.max_waiting, std::move(options.too_many)) {}
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // From any thread.
  const concurrency::Clock& clock() const { return clock_; }
  EventQueue<Event>& queue() { return queue_; }
  StreamId NewStreamId() { return StreamId{++last_stream_}; }
  // Admits nothing new from now on.
  void Drain() {
    draining_ = true;
    queue_.Push(DrainBegins());
  }
  bool draining() const { return draining_; }
  // Every stream ends with UNAVAILABLE.
  void End() { queue_.Push(AllEnd()); }
  void Stop() { queue_.Close(); }  // Run returns when all queued work is done
  size_t active_sequences() const { return active_sequences_; }
  // Not OK: the device is lost. Its streams have ended with UNAVAILABLE, as every new one does,
  // and the process should exit.
  absl::Status failure() const TANDEM_EXCLUDES(failure_mutex_) {
    concurrency::MutexLock lock(failure_mutex_);
    return failure_;
  }
  // How long it has been computing without a pause; 0: it is idle.
  absl::Duration busy_for() const { return meter_.working_for(); }

  // The service's thread.
  void Run() {
    while (true) {
      if (RunOnce()) continue;
      absl::StatusOr<std::optional<Event>> event = queue_.PopFor(WakesAt() - clock_.Now());
      if (!event.ok()) {
        if (IsDone()) return;
        continue;
      }
      if (event->has_value()) HandleEvent(**std::move(event));
    }
  }
  // Handles queued events, then computes. False: there was nothing to do, or waiting work is
  // delayed briefly.
  bool RunOnce() {
    // Bounded, so that passes continue however fast messages arrive.
    size_t taken = 0;
    for (; taken < kMaxTakenIn; ++taken) {
      std::optional<Event> event = queue_.TryPop();
      if (!event.has_value()) break;
      HandleEvent(*std::move(event));
    }
    return Compute() || taken > 0;
  }

 protected:
  // ---- what a service does; the service's thread alone calls ----

  // Called before an event is handled.
  virtual void Wakes() {}
  // Its sink is open. The service may end it at once.
  virtual void Began(Stream& /*stream*/) {}
  // The service checks whether the request's stream still exists.
  virtual void Handle(Request request) = 0;
  // The stream ends after this call: no more answers, and its state is freed unless it is kept for
  // a client that may return.
  virtual void Free(Stream& stream, bool may_return) = 0;
  // At most one pass, and everything that is due without one. False: nothing to compute.
  virtual bool Compute() = 0;
  // When there is work without an event; infinite: never.
  virtual concurrency::Instant WakesAt() const { return concurrency::Instant::InfiniteFuture(); }
  // No more events. False: delayed work is to be computed now.
  virtual bool IsDone() { return true; }

  // ---- what a service uses ----

  StreamTable<Stream>& streams() { return streams_; }
  LoadMeter& meter() { return meter_; }
  const LoadMeter& meter() const { return meter_; }
  const absl::Status& shut_down() const { return shut_down_; }
  void set_active_sequences(size_t sequences) { active_sequences_ = sequences; }

  // `status`: as StreamTable::End's.
  void EndStream(StreamId id, const std::optional<absl::Status>& status, bool may_return = false) {
    Free(streams_.At(id), may_return);
    streams_.End(id, status);
  }
  // Ends all streams, and new ones, so that their clients continue elsewhere. Call once.
  void GiveUp(const absl::Status& why) TANDEM_EXCLUDES(failure_mutex_) {
    {
      concurrency::MutexLock lock(failure_mutex_);
      failure_ = absl::UnavailableError(
          absl::StrCat("the device is lost, so this process ends: ", why.message()));
    }
    for (StreamId id : streams_.All()) EndStream(id, failure());
  }
  // Those whose last answers have gone out.
  void EndFinished() {
    for (StreamId id : streams_.Finished()) EndStream(id, absl::OkStatus());
  }

 private:
  static constexpr size_t kMaxTakenIn = 4096;  // events before a pass

  void HandleEvent(Event event) {
    Wakes();
    std::visit(
        [this](auto& alternative) {
          if constexpr (std::is_same_v<std::decay_t<decltype(alternative)>, Request>) {
            Handle(std::move(alternative));
          } else {
            OnEvent(std::move(alternative));
          }
        },
        event);
  }
  void OnEvent(StreamBegins<Reply> event) {
    const StreamId id = event.stream;
    Began(streams_.Begin(std::move(event)));  // which may end it
    const absl::Status failed = failure();
    if (!failed.ok() && streams_.Find(id) != nullptr) EndStream(id, failed);
  }
  void OnEvent(StreamFinishes event) { streams_.Finish(event.stream); }
  void OnEvent(StreamEnds event) {
    if (streams_.Find(event.stream) == nullptr) return;
    EndStream(event.stream, event.status.ok() ? std::nullopt : std::optional(event.status),
              event.may_return);
  }
  void OnEvent(DrainBegins) {}  // the thread is awake: that was it
  void OnEvent(AllEnd) {
    for (StreamId id : streams_.All()) EndStream(id, shut_down_);
  }

  const concurrency::Clock& clock_;
  LoadMeter meter_;
  const absl::Status shut_down_;
  EventQueue<Event> queue_;
  std::atomic<uint64_t> last_stream_{0};
  std::atomic<bool> draining_{false};
  std::atomic<size_t> active_sequences_{0};
  mutable concurrency::Mutex failure_mutex_;
  absl::Status failure_ TANDEM_GUARDED_BY(failure_mutex_);
  StreamTable<Stream> streams_;  // the service's thread alone
};

}  // namespace tandem::serving
