#include "common/telemetry/batch_processor.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem::telemetry {
namespace {

namespace sdk = opentelemetry::sdk;

// The SDK's "for ever" is the greatest number there is, which no clock can add up.
absl::Duration Bounded(std::chrono::microseconds timeout) {
  return std::min(absl::FromChrono(timeout), absl::Hours(24));
}

}  // namespace

BatchProcessor::BatchProcessor(std::unique_ptr<sdk::trace::SpanExporter> exporter,
                               const BatchOptions& options,
                               std::shared_ptr<std::atomic<uint64_t>> dropped)
    : exporter_(std::move(exporter)),
      options_(options),
      dropped_(std::move(dropped)),
      due_(clock_.Now() + options.delay),
      thread_([this] { Run(); }) {
  TANDEM_CHECK(options.batch_size >= 1 && options.batch_size <= options.queue_size)
      << options.batch_size << " of " << options.queue_size;
}

BatchProcessor::~BatchProcessor() {
  Shutdown(std::chrono::microseconds::max());
  TANDEM_CHECK(!thread_.joinable()) << "an export takes longer than a day";
  exporter_->Shutdown(std::chrono::seconds(1));
}

std::unique_ptr<sdk::trace::Recordable> BatchProcessor::MakeRecordable() noexcept {
  return exporter_->MakeRecordable();
}

void BatchProcessor::OnEnd(std::unique_ptr<sdk::trace::Recordable>&& span) noexcept {
  const std::unique_ptr<sdk::trace::Recordable> unwanted = [&] {
    concurrency::MutexLock lock(mutex_);
    if (closing_ || waiting_.size() >= options_.queue_size) {
      ++*dropped_;
      return std::move(span);
    }
    waiting_.push_back(std::move(span));
    ++ended_;
    if (waiting_.size() == options_.batch_size) work_.NotifyAll();
    return std::unique_ptr<sdk::trace::Recordable>();
  }();
}

bool BatchProcessor::ForceFlush(std::chrono::microseconds timeout) noexcept {
  const concurrency::Instant end = clock_.Now() + Bounded(timeout);
  concurrency::MutexLock lock(mutex_);
  const uint64_t goal = ended_;
  wanted_ = std::max(wanted_, goal);
  work_.NotifyAll();
  while (gone_ < goal && !over_ && clock_.Now() < end)
    progress_.WaitFor(mutex_, end - clock_.Now());
  return gone_ >= goal;
}

bool BatchProcessor::Shutdown(std::chrono::microseconds timeout) noexcept {
  const concurrency::Instant end = clock_.Now() + Bounded(timeout);
  concurrency::MutexLock lock(mutex_);
  closing_ = true;
  work_.NotifyAll();
  while (!over_ && clock_.Now() < end) progress_.WaitFor(mutex_, end - clock_.Now());
  if (!over_) return false;
  // Two may come here at a time; one of them joins.
  std::thread thread = std::move(thread_);
  lock.Unlock();
  if (thread.joinable()) thread.join();
  return true;
}

void BatchProcessor::LeaveBehind() {
  concurrency::MutexLock lock(mutex_);
  TANDEM_CHECK(closing_) << "it is at work";
  if (thread_.joinable()) thread_.detach();
}

BatchProcessor::Recordables BatchProcessor::Next() {
  concurrency::MutexLock lock(mutex_);
  while (!closing_ && wanted_ <= gone_ && waiting_.size() < options_.batch_size) {
    const concurrency::Instant now = clock_.Now();
    if (now < due_) {
      work_.WaitFor(mutex_, due_ - now);
      continue;
    }
    due_ = now + options_.delay;
    wanted_ = ended_;  // all that there is by now
  }
  Recordables batch;
  while (!waiting_.empty() && batch.size() < options_.batch_size) {
    batch.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return batch;
}

void BatchProcessor::Run() {
  concurrency::NameThisThread("spans");
  while (true) {
    Recordables batch = Next();
    if (batch.empty()) break;
    const size_t count = batch.size();
    const auto result = exporter_->Export(
        opentelemetry::nostd::span<Recordables::value_type>(batch.data(), batch.size()));
    concurrency::MutexLock lock(mutex_);
    gone_ += count;
    progress_.NotifyAll();
    // Nobody waits for a collector that is gone.
    if (closing_ && result != sdk::common::ExportResult::kSuccess) break;
  }
  concurrency::MutexLock lock(mutex_);
  over_ = true;
  progress_.NotifyAll();
}

}  // namespace tandem::telemetry
