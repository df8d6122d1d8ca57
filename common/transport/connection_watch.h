// Closes connections that gRPC owns and that hold up others.
//
// gRPC 1.51 reads a connection for as long as something has come, on one of its few threads, and of
// all floods it ends that of PINGs alone. Two connections with nothing but frames that carry
// nothing (SETTINGS, PRIORITY, empty DATA, unknown ones) hold up everybody. So what the kernel has
// received of a connection is compared with the messages that streams have read of it. Heads of
// calls, frames and TLS take a part of the difference, and so do messages that have come in part or
// wait to be read. What a connection may bring for nothing (kFree …) is several times as much.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"

namespace tandem::transport {

// What the streams of a connection say of it. Thread-safe.
struct StreamTraffic {
  std::atomic<uint64_t> message_bytes = 0;  // read so far
  std::atomic<uint64_t> streams = 0;        // open now
};

// One stream of the connection of `peer`, as gRPC calls it. Thread-safe.
class CountedStream {
 public:
  explicit CountedStream(const std::string& peer);
  ~CountedStream();
  CountedStream(const CountedStream&) = delete;
  CountedStream& operator=(const CountedStream&) = delete;

  void CountMessage(uint64_t bytes);

 private:
  const std::shared_ptr<StreamTraffic> traffic_;  // null: nobody watches that connection
};

// Thread-safe.
class ConnectionWatch {
 public:
  static constexpr uint64_t kFree = uint64_t{32} << 20;
  static constexpr uint64_t kFreePerSecond = uint64_t{4} << 20;
  // For each stream that is open, a message that has come in part: more than one may have.
  static constexpr uint64_t kFreePerStream = uint64_t{8} << 20;
  static constexpr uint64_t kMaxFreeOfStreams = uint64_t{512} << 20;

  // A thread looks at all connections so often, if there are any.
  explicit ConnectionWatch(absl::Duration every);
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // A connected socket, before gRPC gets it. It is watched until somebody closes it.
  void Add(int socket) TANDEM_EXCLUDES(mutex_);
  // Ends the oldest of those that have sent no byte yet. Returns its descriptor, which its owner
  // closes soon; -1: all have sent something.
  int EndSilent() TANDEM_EXCLUDES(mutex_);

 private:
  struct Watched {
    int socket = -1;
    ino_t inode = 0;
    std::string peer;
    std::shared_ptr<StreamTraffic> traffic;
    absl::Time since;
  };
  // Ends it if `wrong` holds for it.
  template <typename Wrong>
  static bool End(const Watched& one, const Wrong& wrong);
  static double Free(const Watched& one, absl::Time now);
  static void Forget(const Watched& one);

  void Run() TANDEM_EXCLUDES(mutex_);
  void Look() TANDEM_REQUIRES(mutex_);

  const absl::Duration every_;
  concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  bool over_ TANDEM_GUARDED_BY(mutex_) = false;
  std::vector<Watched> watched_ TANDEM_GUARDED_BY(mutex_);  // the oldest first
  absl::Time seek_silent_from_ TANDEM_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::thread thread_;  // the last member: it uses all others
};

}  // namespace tandem::transport
