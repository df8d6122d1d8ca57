// The streams of a service: who is connected, and how many answers each is owed.
//
//   a stream        ends
//   is open         when it breaks, and nothing more is sent on it
//   is finishing    with OK, once it is owed nothing: its client sends nothing more
//
// Every request that came on a stream gets exactly one answer on it, unless the stream ends before.
//
// Thread safety: the service's thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/base/check.h"
#include "common/base/ids.h"
#include "common/serving/stream_events.h"

namespace tandem::serving {

// What every service knows of a stream. A service adds its own by deriving from it.
template <typename ReplyT>
struct BaseStream {
  using Reply = ReplyT;

  StreamId id{};
  std::string client_id;
  base::Incarnation incarnation{};
  std::shared_ptr<transport::Sink<Reply>> sink;
  size_t owed = 0;  // answers

  // A request came, and its answer is on its way.
  void Owe() { ++owed; }
  void Pay() {
    TANDEM_CHECK(owed > 0) << "a second answer to a request";
    --owed;
  }
};

// `Stream` derives from BaseStream. Pointers to streams are valid until End.
template <typename Stream>
class StreamTable {
 public:
  Stream& Begin(StreamBegins<typename Stream::Reply> event) {
    auto stream = std::make_unique<Stream>();
    stream->id = event.stream;
    stream->client_id = std::move(event.client_id);
    stream->incarnation = event.incarnation;
    stream->sink = std::move(event.sink);
    const auto [it, is_new] = streams_.try_emplace(event.stream, std::move(stream));
    TANDEM_CHECK(is_new) << "stream " << event.stream << " has begun already";
    return *it->second;
  }
  // The stream is there. Its sink is closed with `status`; absent: its client is gone already.
  void End(StreamId id, const std::optional<absl::Status>& status) {
    if (status.has_value()) At(id).sink->Close(*status);
    finishing_.erase(id);
    streams_.erase(id);
  }
  // Its client sends nothing more. Does nothing if the stream was ended.
  void Finish(StreamId id) {
    if (streams_.contains(id)) finishing_.insert(id);
  }
  bool IsFinishing(StreamId id) const { return finishing_.contains(id); }

  // Null: it was ended.
  Stream* Find(StreamId id) {
    const auto it = streams_.find(id);
    return it == streams_.end() ? nullptr : it->second.get();
  }
  Stream& At(StreamId id) { return *streams_.at(id); }

  void ForEach(absl::FunctionRef<void(Stream&)> visit) {
    for (auto& [id, stream] : streams_) visit(*stream);
  }
  void ForEach(absl::FunctionRef<void(const Stream&)> visit) const {
    for (const auto& [id, stream] : streams_) visit(*stream);
  }

  std::vector<StreamId> All() const {
    return Those([](const Stream&) { return true; });
  }
  // Those that are owed nothing.
  std::vector<StreamId> Idle() const {
    return Those([](const Stream& stream) { return stream.owed == 0; });
  }
  // Those that finish and are owed nothing. Looks at those that finish alone, because a service
  // asks after every pass.
  std::vector<StreamId> Finished() const {
    std::vector<StreamId> those;
    for (StreamId id : finishing_) {
      if (streams_.at(id)->owed == 0) those.push_back(id);
    }
    return those;
  }

 private:
  std::vector<StreamId> Those(absl::FunctionRef<bool(const Stream&)> wanted) const {
    std::vector<StreamId> those;
    for (const auto& [id, stream] : streams_) {
      if (wanted(*stream)) those.push_back(id);
    }
    return those;
  }

  absl::flat_hash_map<StreamId, std::unique_ptr<Stream>> streams_;
  absl::flat_hash_set<StreamId> finishing_;
};

}  // namespace tandem::serving
