#include "common/telemetry/watched_exporter.h"

#include <mutex>
#include <set>
#include <utility>

#include "common/base/log.h"
#include "common/concurrency/mutex.h"
#include "opentelemetry/sdk/common/global_log_handler.h"

namespace tandem::telemetry {
namespace {

namespace nostd = opentelemetry::nostd;
namespace sdk = opentelemetry::sdk;
using sdk::common::ExportResult;
using sdk::common::internal_log::GlobalLogHandler;
using sdk::common::internal_log::LogLevel;

// Where this thread's messages go while it exports; null: to the log.
thread_local std::string* reason_of_export = nullptr;

class LogHandler final : public sdk::common::internal_log::LogHandler {
 public:
  void Handle(LogLevel level, const char*, int, const char* message,
              const sdk::common::AttributeMap&) noexcept override {
    if (message == nullptr || level > LogLevel::Warning) return;
    if (reason_of_export != nullptr) {
      *reason_of_export = message;
      return;
    }
    {
      constexpr size_t kMaxTexts = 32;
      concurrency::MutexLock lock(mutex_);
      if (said_.size() >= kMaxTexts || !said_.insert(message).second) return;
    }
    TANDEM_LOG(kWarning) << "OpenTelemetry: " << message;
  }

 private:
  concurrency::Mutex mutex_;
  std::set<std::string> said_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace

void TakeOverOtelLog() {
  static std::once_flag once;
  std::call_once(once, [] {
    GlobalLogHandler::SetLogHandler(
        nostd::shared_ptr<sdk::common::internal_log::LogHandler>(new LogHandler));
  });
}

WatchedExporter::WatchedExporter(std::unique_ptr<SpanExporter> exporter, std::string where,
                                 std::shared_ptr<const std::atomic<uint64_t>> dropped)
    : exporter_(std::move(exporter)), where_(std::move(where)), dropped_(std::move(dropped)) {}

std::unique_ptr<sdk::trace::Recordable> WatchedExporter::MakeRecordable() noexcept {
  return exporter_->MakeRecordable();
}

ExportResult WatchedExporter::Export(
    const nostd::span<std::unique_ptr<sdk::trace::Recordable>>& spans) noexcept {
  const size_t count = spans.size();
  std::string reason;
  reason_of_export = &reason;
  const ExportResult result = exporter_->Export(spans);
  reason_of_export = nullptr;
  const uint64_t dropped = *dropped_;
  const uint64_t new_drops = dropped - std::exchange(dropped_before_, dropped);
  if (result != ExportResult::kSuccess) {
    lost_ += count + new_drops;
    if (!std::exchange(failing_, true)) {
      TANDEM_LOG(kWarning) << "spans are lost: they do not reach " << where_ << ": "
                           << (reason.empty() ? "no reason was given" : reason)
                           << " (nothing else depends on it; said once)";
    }
    return result;
  }
  if (std::exchange(failing_, false)) {
    TANDEM_LOG(kWarning) << "spans reach " << where_ << " again; " << lost_ + new_drops
                         << " were lost";
    lost_ = 0;
  } else if (new_drops > 0 && !std::exchange(told_of_drops_, true)) {
    TANDEM_LOG(kWarning) << "spans end faster than they reach " << where_ << ": " << new_drops
                         << " were lost; OTEL_BSP_MAX_QUEUE_SIZE holds more of them, and "
                            "OTEL_TRACES_SAMPLER makes fewer (said once)";
  }
  return result;
}

bool WatchedExporter::ForceFlush(std::chrono::microseconds timeout) noexcept {
  return exporter_->ForceFlush(timeout);
}

bool WatchedExporter::Shutdown(std::chrono::microseconds timeout) noexcept {
  return exporter_->Shutdown(timeout);
}

}  // namespace tandem::telemetry
