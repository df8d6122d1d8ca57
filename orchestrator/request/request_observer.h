// Who wants to see requests as a whole (tracing, metrics, the log). No-ops here, as in RoundObserver.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/concurrency/instant.h"
#include "orchestrator/request/ending.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// A call of Generate, as it came. Times are of the loop's clock.
struct Arrival {
  concurrency::Instant at;
  std::string traceparent;  // the header as it came; may be empty or anything
};

struct RequestEnd {
  concurrency::Instant arrived;
  concurrency::Instant at;
  absl::Status status;
  std::string trace_id;                        // empty: not traced
  const GenerationRequest* request = nullptr;  // null: it was refused, and never was one
  // Of the samples that ended before the request did; none when it was never admitted.
  absl::Span<const Ending> endings;
};

// Not thread-safe: OnAccepted comes on the call's thread; what follows, on the request's strand.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;

  // To look the request up by; empty: it is not traced. Stays what it is.
  virtual std::string trace_id() const { return {}; }
  // It was found good, and asks to be admitted.
  virtual void OnAccepted(concurrency::Instant /*at*/, const GenerationRequest& /*request*/) {}
  virtual void OnAdmitted(concurrency::Instant /*at*/, const v1::Started& /*started*/) {}
  // Of a sample that begins now; null: nobody watches. Destroyed before this is.
  virtual std::unique_ptr<RoundObserver> WatchSample(uint32_t /*sample_index*/) { return nullptr; }
  // Once, as the last call.
  virtual void OnEnded(const RequestEnd& /*end*/) {}
};

// From any thread. Null: this request is not watched.
using WatchRequest = std::function<std::unique_ptr<RequestObserver>(const Arrival& arrival)>;

// All of them as one, in their order. Nobody watches: one that does nothing. Never null.
std::unique_ptr<RequestObserver> WatchAll(absl::Span<const WatchRequest> watchers,
                                          const Arrival& arrival);
// The same for a sample. What is null is left out.
std::unique_ptr<RoundObserver> JoinObservers(std::vector<std::unique_ptr<RoundObserver>> observers);

}  // namespace tandem::orchestrator
