// Which stream speaks for each client. A client that comes back with a higher incarnation fences
// its older stream, so that late messages of a broken connection cannot hold slots or ask for work.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/concurrency/mutex.h"
#include "common/serving/stream_id.h"

namespace tandem::target_service {

using serving::StreamId;

// Thread-safe.
class Clients {
 public:
  // From now on `stream` speaks for the client. Returns the stream that did before and has to end;
  // 0: none. ABORTED (messages::Overtaken) when a stream with this incarnation or a higher one came
  // before.
  absl::StatusOr<StreamId> Enter(const std::string& client_id, base::Incarnation incarnation,
                                 StreamId stream);
  // The stream is over. Its incarnation is remembered.
  void Leave(const std::string& client_id, StreamId stream);

 private:
  // Clients without a stream are forgotten beyond so many; what they fenced is long gone then.
  static constexpr size_t kMaxRemembered = 4096;

  struct Client {
    base::Incarnation incarnation{};
    StreamId stream{};  // 0: none now
  };

  concurrency::Mutex mutex_;
  absl::flat_hash_map<std::string, Client> clients_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::target_service
