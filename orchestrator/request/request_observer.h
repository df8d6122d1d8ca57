// Observers of whole requests: tracing, metrics, the log. The default functions do nothing, as in
// RoundObserver.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/concurrency/instant.h"
#include "orchestrator/request/ending.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// The way that a call came. The views live for ever.
struct CallFront {
  absl::string_view rpc;    // "tandem.v1.Generation/Generate"; empty: it came over HTTP
  absl::string_view route;  // HTTP: "/v1/chat/completions", by POST
  std::string server;       // HOST:PORT as the client names it: may be empty or anything
  bool encrypted = false;   // HTTP alone
  bool is_stream = true;    // HTTP: the answer's status goes out when the request is admitted
  bool is_chat = false;     // HTTP: the route is that of conversations
};

// A call of Generate as it arrived. Times are of the loop's clock.
struct Arrival {
  concurrency::Instant at;
  std::string traceparent;  // the header as it came; may be empty or anything
  // The client's own id from a header; empty: it gave none there, or one that is not valid.
  std::string request_id = {};
  CallFront front = {};
  std::string tracestate = {};  // the headers as they came, joined by commas; may be anything
};

struct RequestEnd {
  concurrency::Instant arrived;
  concurrency::Instant at;
  absl::Status status;
  std::string trace_id;                        // empty: not traced
  const GenerationRequest* request = nullptr;  // null: the call was refused
  // The ends of the samples that ended before the request. Empty if it was never admitted.
  absl::Span<const Ending> endings;
};

// Not thread-safe. OnAccepted comes on the call's thread, and all later calls on the request's
// strand.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;

  // The id to look the request up by; empty if it is not traced. It never changes.
  virtual std::string trace_id() const { return {}; }
  // The request was found valid and asks for admission.
  virtual void OnAccepted(concurrency::Instant /*at*/, const GenerationRequest& /*request*/) {}
  virtual void OnAdmitted(concurrency::Instant /*at*/, const v1::Started& /*started*/) {}
  // Returns the observer of a sample that begins now; null if nobody watches it. It is destroyed
  // before this object.
  virtual std::unique_ptr<RoundObserver> WatchSample(uint32_t /*sample_index*/) { return nullptr; }
  // Called once, as the last call.
  virtual void OnEnded(const RequestEnd& /*end*/) {}
};

// Called on any thread. Null means that the request is not watched.
using WatchRequest = std::function<std::unique_ptr<RequestObserver>(const Arrival& arrival)>;

// Joins observers of a request into one that calls them in order. It does nothing if nobody
// watches. Never null.
std::unique_ptr<RequestObserver> WatchAll(absl::Span<const WatchRequest> watchers,
                                          const Arrival& arrival);
// Joins observers of a sample. Null ones are left out.
std::unique_ptr<RoundObserver> JoinObservers(std::vector<std::unique_ptr<RoundObserver>> observers);

}  // namespace tandem::orchestrator
