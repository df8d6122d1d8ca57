// What the orchestrator holds for clients that have not read it yet, in bytes of memory.
//
// A call holds replies until its client has read them, also when its request is long over. So what
// all calls hold together is bounded here, and not where requests are counted. When it is too much,
// the call that holds the most ends, and then the next one, until the rest fits (longest queue
// drop). It does not matter which call sent last. A client that reads has little waiting, so the
// calls of clients that do not read end before its own.
//
//   UnreadReplies  all calls of the process: the bounds, and the numbers for the metrics
//   UnreadCall     one call: whether its reader is so far behind that its request pauses
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "common/concurrency/mutex.h"

namespace tandem::orchestrator {

struct UnreadLimits {
  size_t max_calls = 2560;                    // open at once
  size_t max_bytes = size_t{256} << 20;       // of all calls together
  size_t max_call_bytes = size_t{512} << 10;  // a call is behind when it holds more
};

// Why replies were dropped unread.
enum class UnreadDrop : uint8_t {
  kPatience,  // the client did not read for too long
  kBytes,     // all calls together held too much, and this one the most
};
inline constexpr int kUnreadDrops = 2;

const char* Name(UnreadDrop cause);

// As of now; the last two since the start.
struct UnreadCounts {
  size_t calls = 0;
  size_t bytes = 0;
  uint64_t refused = 0;                             // calls, for want of room
  std::array<uint64_t, kUnreadDrops> dropped = {};  // calls, by cause
};

// Thread-safe.
class UnreadReplies {
 public:
  explicit UnreadReplies(const UnreadLimits& limits) : limits_(limits) {}

  // Call it for a call that has just joined. RESOURCE_EXHAUSTED, with the numbers: too many are
  // open with it.
  absl::Status Admit();
  void CountDropped(UnreadDrop cause);
  UnreadCounts counts() const;
  const UnreadLimits& limits() const { return limits_; }

 private:
  friend class UnreadCall;
  using WhenOver = std::function<void(absl::Status)>;
  struct Share {
    size_t bytes = 0;
    bool over = false;  // its call was told to end, and nothing of it counts any more
    WhenOver when_over;
  };
  struct Ended {
    WhenOver tell;
    absl::Status status;
  };

  uint64_t Join();
  void Leave(uint64_t id);
  void SetWhenOver(uint64_t id, WhenOver when_over);
  void Add(uint64_t id, size_t bytes);
  void Remove(uint64_t id, size_t bytes);
  Ended EndLargest() TANDEM_REQUIRES(mutex_);

  const UnreadLimits limits_;
  mutable concurrency::Mutex mutex_;
  uint64_t last_id_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, Share> shares_ TANDEM_GUARDED_BY(mutex_);
  UnreadCounts counts_ TANDEM_GUARDED_BY(mutex_);  // but for `calls`
};

// Used on the request's strand only, but for its constructor and destructor. It is open from the
// one to the other.
class UnreadCall {
 public:
  // Null `all`: there are no other calls, and `max_bytes` is all that counts.
  explicit UnreadCall(std::shared_ptr<UnreadReplies> all,
                      size_t max_bytes = UnreadLimits().max_call_bytes);
  ~UnreadCall();
  UnreadCall(const UnreadCall&) = delete;
  UnreadCall& operator=(const UnreadCall&) = delete;

  // `tell` is called at most once, when all calls hold too much and this one the most. It is called
  // on any thread, with no lock held, maybe inside Add of this call or of another one, and maybe
  // when this object is just gone.
  void WhenOver(std::function<void(absl::Status)> tell);

  void Add(size_t bytes);
  void Remove(size_t bytes);  // at most what was added
  void Clear();

  size_t bytes() const { return bytes_; }
  bool behind() const { return bytes_ > max_bytes_; }
  bool caught_up() const { return bytes_ <= max_bytes_ / 2; }

 private:
  const std::shared_ptr<UnreadReplies> all_;
  const size_t max_bytes_;
  const uint64_t id_;
  size_t bytes_ = 0;
};

}  // namespace tandem::orchestrator
