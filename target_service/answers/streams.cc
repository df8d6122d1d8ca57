#include "target_service/answers/streams.h"

#include "common/messages/handshake.h"

namespace tandem::target_service {
namespace {

// A stream that asked for nothing for so long does not compete.
constexpr absl::Duration kActive = absl::Seconds(1);

}  // namespace

int ActiveStreams(const Streams& streams, concurrency::Instant now) {
  int active = 0;
  streams.ForEach(
      [&](const Stream& stream) { active += now - stream.last_step < kActive ? 1 : 0; });
  return active;
}

bool IsOvertaken(const Stream& stream, const Streams& streams) {
  bool overtaken = false;
  streams.ForEach([&](const Stream& other) {
    overtaken = overtaken ||
                (other.client_id == stream.client_id && other.incarnation > stream.incarnation);
  });
  return overtaken;
}

absl::Status Overtaken() {
  return messages::Overtaken("a newer stream of this client took over (its incarnation)");
}

}  // namespace tandem::target_service
