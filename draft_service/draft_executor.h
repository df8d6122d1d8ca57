// The one thread that drafts: it alone calls the drafters, and so the draft model. Sequences take turns,
// a job each, in the order of arrival.
//
//   gRPC's threads ──▶ queue ──▶ RunOnce: take in ▶ one job (read a prompt, or draft a block) ──▶ sinks
//
// Every Advance gets exactly one Block, unless its stream ends before.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/bounded_queue.h"
#include "common/concurrency/clock.h"
#include "common/rpc/held_prefix.h"
#include "common/rpc/refusal.h"
#include "common/rpc/stream.h"
#include "draft_service/options.h"
#include "draft_service/request_check.h"
#include "tandem/v1/draft.pb.h"

namespace tandem::draft_service {

using StreamId = uint64_t;  // of this process; 0 is none
using BlockSink = rpc::Sink<v1::DraftReply>;

struct StreamBegins {
  StreamId stream = 0;
  std::shared_ptr<BlockSink> sink;
};
struct OpenArrives {
  StreamId stream = 0;
  uint64_t sequence = 0;
  std::variant<CheckedOpen, rpc::Refusal> open;
};
struct AdvanceArrives {
  StreamId stream = 0;
  uint64_t sequence = 0;
  uint64_t round = 0;
  std::variant<CheckedAdvance, rpc::Refusal> advance;
  absl::Duration arrived;
};
struct CloseArrives {
  StreamId stream = 0;
  uint64_t sequence = 0;
};
// The client sends nothing more: answer what waits, free all, then close with OK.
struct StreamFinishes {
  StreamId stream = 0;
};
// The stream is gone: drop what waits, free all.
struct StreamEnds {
  StreamId stream = 0;
};
using DraftEvent = std::variant<StreamBegins, OpenArrives, AdvanceArrives, CloseArrives,
                                StreamFinishes, StreamEnds>;

class DraftExecutor {
 public:
  static constexpr size_t kMostQueued = 16384;  // Opens and Advances

  // `options` are valid, with the clock set. Makes no thread: its owner calls Run on one, and a test
  // RunOnce.
  explicit DraftExecutor(const Options& options);
  ~DraftExecutor();

  // From any thread. RESOURCE_EXHAUSTED for an Open or an Advance when too many wait; other events are
  // never refused.
  absl::Status Push(DraftEvent event);
  const concurrency::Clock& clock() const { return clock_; }
  StreamId NewStreamId() { return ++last_stream_; }
  void Drain() { draining_ = true; }
  void Stop() { queue_.Close(absl::CancelledError("the drafting thread ends")); }
  size_t active_sequences() const { return active_sequences_; }
  absl::Duration busy_for() const;

  // The drafting thread.
  void Run();  // until Stop; then what was queued is done
  // Takes in all that is queued and runs at most one job. False: there was nothing to do.
  bool RunOnce();

 private:
  struct Sequence;
  struct Stream;
  struct Job;
  using Key = std::pair<StreamId, uint64_t>;

  void TakeIn(DraftEvent event);
  void TakeIn(StreamBegins event);
  void TakeIn(OpenArrives event);
  void TakeIn(AdvanceArrives event);
  void TakeIn(CloseArrives event);
  void TakeIn(StreamFinishes event);
  void TakeIn(StreamEnds event);

  void RunJob(Job job);
  void OpenSequence(Sequence& sequence, CheckedOpen open);
  std::optional<rpc::Refusal> MakeDrafter(Sequence& sequence, const CheckedOpen& open);
  v1::Block DraftBlock(Sequence& sequence, const CheckedAdvance& advance, absl::Duration arrived);
  absl::Status AcceptPrefix(Sequence& sequence, const v1::Prefix& prefix, uint32_t standing);
  rpc::Refusal Fail(Sequence& sequence, const absl::Status& status);

  void Send(StreamId stream, v1::Block block);
  void EndFinished();
  void EraseStream(StreamId stream);
  size_t LiveSequences() const;

  const Options options_;
  const concurrency::Clock& clock_;
  concurrency::BoundedQueue<DraftEvent> queue_{size_t{1} << 20};
  std::atomic<StreamId> last_stream_{0};
  std::atomic<bool> draining_{false};
  std::atomic<size_t> active_sequences_{0};
  std::atomic<int64_t> busy_since_ns_{0};  // 0: waiting

  // The drafting thread alone.
  absl::flat_hash_map<StreamId, std::unique_ptr<Stream>> streams_;
  absl::flat_hash_map<Key, std::unique_ptr<Sequence>> sequences_;
  std::list<Job> jobs_;
};

}  // namespace tandem::draft_service
