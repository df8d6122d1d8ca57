// The streams that the draft service has: who is connected, what is sent on them, and how each
// ends.
//
//   a stream         ends
//   is open          when it breaks, and nothing more is sent on it
//   is finishing     with OK, once all of its Advances are answered: its client sends nothing more
//   is handed over   with UNAVAILABLE: the service drains
//
// Every Advance that came on a stream gets exactly one Block on it, unless the stream ends before.
//
// Thread safety: the drafting thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/concurrency/clock.h"
#include "draft_service/draft_events.h"
#include "draft_service/draft_observer.h"
#include "tandem/v1/draft.pb.h"

namespace tandem::draft_service {

class DraftStreams {
 public:
  // `clock` and `observer` outlive it. `load`: as of now, which goes with every Block.
  DraftStreams(const concurrency::Clock& clock, DraftObserver& observer,
               std::function<v1::Load()> load);

  void Begin(StreamId id, std::shared_ptr<BlockSink> sink, const std::string& client_id);
  bool Has(StreamId id) const { return streams_.contains(id); }
  // The same for all streams of a client. The stream is there, as below.
  uint64_t group(StreamId id) const { return streams_.at(id).group; }

  // An Advance came: a Block is owed.
  void Owe(StreamId id) { ++streams_.at(id).owed; }
  // The Block that is owed. What of `advance` shows in the Block (status, candidates, end) is
  // filled in here, and so are the times in the Block.
  void Send(StreamId id, v1::Block block, EndedAdvance advance);
  // An Advance is over whose stream is gone: nothing is sent.
  void Drop(EndedAdvance advance);

  // Its client sends nothing more. Does nothing when the stream is gone.
  void MarkFinishing(StreamId id);
  // Those that finish and are owed nothing.
  std::vector<StreamId> Finished() const;
  // Those that are owed nothing.
  std::vector<StreamId> Idle() const;
  std::vector<StreamId> All() const;

  // Says so to its client; Erase comes next.
  void Close(StreamId id, absl::Status status) { streams_.at(id).sink->Close(std::move(status)); }
  void Erase(StreamId id);

 private:
  struct Stream {
    std::shared_ptr<BlockSink> sink;
    uint64_t group = 0;
    size_t owed = 0;  // Blocks
    std::string client_id;
  };
  struct Client {
    uint64_t group = 0;
    size_t streams = 0;
  };

  const concurrency::Clock& clock_;
  DraftObserver& observer_;
  const std::function<v1::Load()> load_;
  absl::flat_hash_map<StreamId, Stream> streams_;
  absl::flat_hash_map<std::string, Client> clients_;
  std::set<StreamId> finishing_;
  uint64_t last_group_ = 0;
};

}  // namespace tandem::draft_service
