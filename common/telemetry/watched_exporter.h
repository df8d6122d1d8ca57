// An exporter that says once what goes wrong: a collector that is not there must not fill the log.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "opentelemetry/sdk/trace/exporter.h"

namespace tandem::telemetry {

// Makes OpenTelemetry's SDK log through us. The reason of a failed export goes into
// WatchedExporter's one line. Any other text is a warning, once. A second call does nothing.
void TakeOverOtelLog();

// Logs when exports begin to fail, and when they work again, with how many spans were lost in
// between. Threads as OpenTelemetry's exporters: Export by one thread at a time, all else by any.
class WatchedExporter final : public opentelemetry::sdk::trace::SpanExporter {
 public:
  // `where`: for the log. `dropped`: spans that never came here, for want of place.
  WatchedExporter(std::unique_ptr<opentelemetry::sdk::trace::SpanExporter> exporter,
                  std::string where, std::shared_ptr<const std::atomic<uint64_t>> dropped);

  std::unique_ptr<opentelemetry::sdk::trace::Recordable> MakeRecordable() noexcept override;
  opentelemetry::sdk::common::ExportResult Export(
      const opentelemetry::nostd::span<std::unique_ptr<opentelemetry::sdk::trace::Recordable>>&
          spans) noexcept override;
  bool ForceFlush(std::chrono::microseconds timeout) noexcept override;
  bool Shutdown(std::chrono::microseconds timeout) noexcept override;

 private:
  const std::unique_ptr<opentelemetry::sdk::trace::SpanExporter> exporter_;
  const std::string where_;
  const std::shared_ptr<const std::atomic<uint64_t>> dropped_;
  bool failing_ = false;
  uint64_t lost_ = 0;            // since exports fail
  uint64_t dropped_before_ = 0;  // as of the last export
  bool told_of_drops_ = false;
};

}  // namespace tandem::telemetry
