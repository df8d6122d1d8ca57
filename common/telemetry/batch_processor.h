// Ended spans wait here for the next export. This class replaces the SDK's own processor, whose
// worker may sleep through a wake-up. A flush or an end would then wait for the next export's time,
// and the last spans would be lost.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/system_clock.h"
#include "opentelemetry/sdk/trace/exporter.h"
#include "opentelemetry/sdk/trace/processor.h"
#include "opentelemetry/sdk/trace/recordable.h"

namespace tandem::telemetry {

struct BatchOptions {
  absl::Duration delay;   // from one export to the next
  size_t queue_size = 0;  // spans; more are dropped
  size_t batch_size = 0;  // an export begins early when so many wait, and has no more of them
};

// Thread-safe. Spans end without waiting for anything but a mutex.
class BatchProcessor final : public opentelemetry::sdk::trace::SpanProcessor {
 public:
  // `dropped` counts the spans that found no place.
  BatchProcessor(std::unique_ptr<opentelemetry::sdk::trace::SpanExporter> exporter,
                 const BatchOptions& options, std::shared_ptr<std::atomic<uint64_t>> dropped);
  // Calls Shutdown, however long that takes.
  ~BatchProcessor() override;

  std::unique_ptr<opentelemetry::sdk::trace::Recordable> MakeRecordable() noexcept override;
  void OnStart(opentelemetry::sdk::trace::Recordable&,
               const opentelemetry::trace::SpanContext&) noexcept override {}
  void OnEnd(std::unique_ptr<opentelemetry::sdk::trace::Recordable>&& span) noexcept override;

  // False: not all that had ended was exported (or failed to be) in time.
  bool ForceFlush(std::chrono::microseconds timeout) noexcept override;
  // Exports what is left, until the first failure. False: the thread could not be waited for in
  // time.
  bool Shutdown(std::chrono::microseconds timeout) noexcept override;
  // After a Shutdown that returned false: its thread is left alone. This object must then never be
  // destroyed.
  void LeaveBehind() TANDEM_EXCLUDES(mutex_);

 private:
  using Recordables = std::vector<std::unique_ptr<opentelemetry::sdk::trace::Recordable>>;

  void Run();
  // Waits until the next export is due, enough spans wait, or there is a flush or the end. Empty:
  // it is the end.
  Recordables Next() TANDEM_EXCLUDES(mutex_);

  const std::unique_ptr<opentelemetry::sdk::trace::SpanExporter> exporter_;
  const BatchOptions options_;
  const std::shared_ptr<std::atomic<uint64_t>> dropped_;
  const concurrency::SteadyClock clock_;
  concurrency::Mutex mutex_;
  concurrency::CondVar work_;      // for the thread
  concurrency::CondVar progress_;  // for callers that flush or end it
  std::deque<std::unique_ptr<opentelemetry::sdk::trace::Recordable>> waiting_
      TANDEM_GUARDED_BY(mutex_);
  uint64_t ended_ TANDEM_GUARDED_BY(mutex_) = 0;   // spans that ever waited
  uint64_t gone_ TANDEM_GUARDED_BY(mutex_) = 0;    // of these, what was exported, or failed to be
  uint64_t wanted_ TANDEM_GUARDED_BY(mutex_) = 0;  // what is to be gone as soon as can be
  concurrency::Instant due_ TANDEM_GUARDED_BY(mutex_);  // the next export by time
  bool closing_ TANDEM_GUARDED_BY(mutex_) = false;
  bool over_ TANDEM_GUARDED_BY(mutex_) = false;  // the thread has no more to do
  std::thread thread_;                           // the last member: it uses all others
};

}  // namespace tandem::telemetry
