#include "target_service/streams.h"

#include <algorithm>
#include <utility>

#include "common/messages/limits.h"

namespace tandem::target_service {
namespace {

// Of the verdicts of one message; the rest is for the load and the framing. One verdict alone is
// far below it.
constexpr size_t kMaxVerdictBytes = messages::kMaxMessageBytes - (64 << 10);

absl::Status TookOver() {
  return absl::AbortedError("a newer stream of this client took over (its incarnation)");
}

void SendVerdicts(Stream& stream, v1::Verdicts verdicts, v1::Load load) {
  *verdicts.mutable_load() = std::move(load);
  v1::TargetReply reply;
  *reply.mutable_verdicts() = std::move(verdicts);
  stream.sink->Send(std::move(reply));  // false: the stream is over, and its end is on its way
}

}  // namespace

bool Streams::Begin(StreamBegins event) {
  // Two streams of a client that came at the same time may get here in either order.
  for (const auto& [id, other] : streams_) {
    if (other->client_id == event.client_id && other->incarnation > event.incarnation) {
      event.sink->Close(TookOver());
      return false;
    }
  }
  auto stream = std::make_unique<Stream>();
  stream->id = event.stream;
  stream->client_id = std::move(event.client_id);
  stream->incarnation = event.incarnation;
  stream->sink = std::move(event.sink);
  streams_[event.stream] = std::move(stream);
  return true;
}

void Streams::End(StreamId id, const std::optional<absl::Status>& status) {
  if (status.has_value()) At(id).sink->Close(*status);
  streams_.erase(id);
}

Stream* Streams::Find(StreamId id) {
  const auto it = streams_.find(id);
  return it == streams_.end() ? nullptr : it->second.get();
}

std::vector<StreamId> Streams::All() const {
  std::vector<StreamId> all;
  for (const auto& [id, stream] : streams_) all.push_back(id);
  return all;
}

std::vector<StreamId> Streams::Finishing() const {
  std::vector<StreamId> finishing;
  for (const auto& [id, stream] : streams_) {
    if (stream->finishing) finishing.push_back(id);
  }
  return finishing;
}

int Streams::Active(concurrency::Instant now) const {
  const auto active = std::count_if(streams_.begin(), streams_.end(), [now](const auto& entry) {
    return now - entry.second->last_step < kActive;
  });
  return static_cast<int>(active);
}

void Streams::Send(absl::FunctionRef<v1::Load(Stream& stream)> load_for) {
  for (auto& [id, stream] : streams_) {
    if (stream->outgoing.verdicts_size() == 0) continue;
    v1::Verdicts message;
    size_t bytes = 0;
    for (v1::Verdict& verdict : *stream->outgoing.mutable_verdicts()) {
      const size_t more = verdict.ByteSizeLong();
      if (bytes > 0 && bytes + more > kMaxVerdictBytes) {
        SendVerdicts(*stream, std::exchange(message, {}), load_for(*stream));
        bytes = 0;
      }
      bytes += more;
      *message.add_verdicts() = std::move(verdict);
    }
    SendVerdicts(*stream, std::move(message), load_for(*stream));
    stream->outgoing.Clear();
  }
}

}  // namespace tandem::target_service
