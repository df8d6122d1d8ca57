// The one thread of a service: it alone computes, and it alone touches streams and sequences.
//
//   gRPC's threads ──▶ EventQueue ──▶ RunOnce: take in ──▶ Compute ──▶ sinks
//
// Taking events in, the life of streams, draining and the end are here. What a request is, what a
// stream holds and what is computed is the service's: it derives from Executor.
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
  std::string shut_down;  // what clients are told when the service ends their streams
};

// `StreamT`: derives from BaseStream. `RequestT`: what a session makes of a message.
template <typename StreamT, typename RequestT>
class Executor {
 public:
  using Stream = StreamT;
  using Reply = typename Stream::Reply;
  using Request = RequestT;
  using Event = StreamEvent<Reply, Request>;

  // Makes no thread: its owner calls Run on one, and a test RunOnce.
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
  // Nothing new is let in from now on.
  void Drain() {
    draining_ = true;
    queue_.Push(DrainBegins());
  }
  bool draining() const { return draining_; }
  // Every stream ends with UNAVAILABLE.
  void End() { queue_.Push(AllEnd()); }
  void Stop() { queue_.Close(); }  // Run returns when all that was queued is done
  size_t active_sequences() const { return active_sequences_; }
  // Not OK: what it computes with is lost. Its streams have ended with UNAVAILABLE, as each one
  // does that comes, and the process should end.
  absl::Status failure() const TANDEM_EXCLUDES(failure_mutex_) {
    concurrency::MutexLock lock(failure_mutex_);
    return failure_;
  }
  // How long it has been computing without a pause; 0: it waits.
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
  // Takes in what is queued, then computes. False: there was nothing to do, or what waits is held
  // up for a moment.
  bool RunOnce() {
    // Not without an end, so that passes go on however fast messages come.
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

  // An event is about to be taken in.
  virtual void Wakes() {}
  // Its sink is open. The service may end it at once.
  virtual void Began(Stream& /*stream*/) {}
  // It looks itself whether the request's stream is still there.
  virtual void Handle(Request request) = 0;
  // The stream ends after this call: nothing of it is answered any more, and all that it holds is
  // freed, unless it is kept for a client that may return.
  virtual void Free(Stream& stream, bool may_return) = 0;
  // One pass at most, and all that is due without one. False: there was nothing to compute.
  virtual bool Compute() = 0;
  // When there is something to do though no event comes; infinite: never.
  virtual concurrency::Instant WakesAt() const { return concurrency::Instant::InfiniteFuture(); }
  // No event comes any more. False: what was held up is now to be computed.
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
  // Ends all streams, and those that come: their clients go on elsewhere at once. Once.
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
