// Sees what became of each Advance and each pass, and tells it: a span an Advance that is sampled,
// and the service's metrics. The drafting itself knows of neither.
//
// Thread safety: the drafting thread calls; metrics are for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/telemetry/tracer.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/serving/draft_metrics.h"
#include "tandem/internal/v1/tokens.pb.h"

namespace tandem::draft_service {

// An Advance that is over: its Block goes out now, or its stream ended before.
struct EndedAdvance {
  std::optional<telemetry::SpanContext> trace;  // sampled; absent: it is not
  internal::v1::Status status =
      internal::v1::STATUS_CLOSED;  // of its Block; CLOSED too where there is none
  absl::string_view drafter;        // empty: its sequence has none
  uint32_t max_draft_tokens = 0;    // draft tokens that were asked for
  uint32_t drafted = 0;
  concurrency::Instant arrived;
  concurrency::Instant ended;
  absl::Duration computed;     // part of the time between
  Drafter::Recalled recalled;  // for it and for what its sequence read ahead

  absl::Duration queued() const { return ended - arrived - computed; }
};

class DraftObserver {
 public:
  // `tracer` may be null, and must outlive it. `model_name`: what the model is called; may be
  // empty.
  explicit DraftObserver(telemetry::Tracer* tracer, std::string model_name = {})
      : tracer_(tracer), model_name_(std::move(model_name)) {}

  // Once an Advance. One that is not sampled costs its counting alone: nothing is allocated.
  void OnEnded(const EndedAdvance& advance);
  // Blocks made in advance were sent, turned out to be the next one, or turned out not to be.
  void OnPrepared(PreparedEvent event, size_t blocks) { metrics_.CountPrepared(event, blocks); }
  void OnPass(int rows, int sequences) { metrics_.CountPass(rows, sequences); }

  const DraftMetrics& metrics() const { return metrics_; }
  const std::string& model_name() const { return model_name_; }

 private:
  telemetry::Tracer* const tracer_;
  const std::string model_name_;
  DraftMetrics metrics_;
};

}  // namespace tandem::draft_service
