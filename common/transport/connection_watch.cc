#include "common/transport/connection_watch.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/clock.h"
#include "common/base/listen.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/concurrency/system_clock.h"
#include "common/transport/connection_limit.h"

namespace tandem::transport {
namespace {

// To look for a silent one costs system calls for each connection.
constexpr absl::Duration kSeekAgain = absl::Milliseconds(50);

// A client's port may lead to several ports of this process.
struct Counted {
  std::shared_ptr<StreamTraffic> traffic = std::make_shared<StreamTraffic>();
  int connections = 0;
};

struct Registry {
  concurrency::Mutex mutex;
  absl::flat_hash_map<std::string, Counted> peers TANDEM_GUARDED_BY(mutex);
};

Registry& ThisProcess() {
  static auto* const registry = new Registry;  // streams may end later than statics
  return *registry;
}

// As the kernel counts them; 1: it does not tell. Where tcpi_bytes_received lies is part of Linux's
// interface. The C library's tcp_info ends before it, and linux/tcp.h cannot stand beside that.
uint64_t BytesReceived(int socket) {
  constexpr size_t kAt = 128;
  std::array<char, kAt + sizeof(uint64_t)> info{};
  socklen_t size = info.size();
  if (syscall(SYS_getsockopt, socket, IPPROTO_TCP, TCP_INFO, info.data(), &size) != 0 ||
      size < info.size()) {
    return 1;
  }
  uint64_t received = 0;
  std::memcpy(&received, info.data() + kAt, sizeof(received));
  return received;
}

std::shared_ptr<StreamTraffic> TrafficOf(const std::string& peer) {
  Registry& registry = ThisProcess();
  concurrency::MutexLock lock(registry.mutex);
  const auto it = registry.peers.find(peer);
  return it == registry.peers.end() ? nullptr : it->second.traffic;
}

}  // namespace

CountedStream::CountedStream(const std::string& peer) : traffic_(TrafficOf(peer)) {
  if (traffic_ != nullptr) ++traffic_->streams;
}

CountedStream::~CountedStream() {
  if (traffic_ != nullptr) --traffic_->streams;
}

void CountedStream::CountMessage(uint64_t bytes) {
  if (traffic_ != nullptr) traffic_->message_bytes += bytes;
}

ConnectionWatch::ConnectionWatch(absl::Duration every)
    : every_(every), thread_([this] { Run(); }) {}

ConnectionWatch::~ConnectionWatch() {
  {
    concurrency::MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
  concurrency::MutexLock lock(mutex_);
  for (const Watched& one : watched_) Forget(one);
}

void ConnectionWatch::Add(int socket) {
  Watched one{socket, InodeOf(socket), base::PeerName(socket), nullptr, absl::Now()};
  {
    Registry& registry = ThisProcess();
    concurrency::MutexLock lock(registry.mutex);
    Counted& counted = registry.peers[one.peer];
    ++counted.connections;
    one.traffic = counted.traffic;
  }
  concurrency::MutexLock lock(mutex_);
  watched_.push_back(std::move(one));
  changed_.NotifyAll();
}

void ConnectionWatch::Forget(const Watched& one) {
  Registry& registry = ThisProcess();
  concurrency::MutexLock lock(registry.mutex);
  const auto it = registry.peers.find(one.peer);
  if (--it->second.connections == 0) registry.peers.erase(it);
}

void ConnectionWatch::Run() {
  concurrency::NameThisThread("connections");
  concurrency::MutexLock lock(mutex_);
  while (!over_) {
    if (watched_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    const absl::Time next = absl::Now() + every_;
    while (!over_ && absl::Now() < next) changed_.WaitFor(mutex_, next - absl::Now());
    if (!over_) Look();
  }
}

void ConnectionWatch::Look() {
  const absl::Time now = absl::Now();
  std::erase_if(watched_, [now](const Watched& one) {
    if (InodeOf(one.socket) == one.inode) {
      const double free = Free(one, now);
      double bytes = 0;
      const bool ended = End(one, [&](int socket) {
        bytes = static_cast<double>(BytesReceived(socket)) -
                static_cast<double>(one.traffic->message_bytes.load());
        return bytes > free;
      });
      if (!ended) return false;
      TANDEM_LOG(kWarning) << base::LogFields("connection_flooded")
                                  .Add("peer", one.peer)
                                  .Add("bytes_without_message", static_cast<uint64_t>(bytes));
    }
    Forget(one);
    return true;
  });
}

double ConnectionWatch::Free(const Watched& one, absl::Time now) {
  const uint64_t of_streams =
      std::min(one.traffic->streams.load() * kFreePerStream, kMaxFreeOfStreams);
  return static_cast<double>(kFree + of_streams) +
         static_cast<double>(kFreePerSecond) * absl::ToDoubleSeconds(now - one.since);
}

int ConnectionWatch::EndSilent() {
  concurrency::MutexLock lock(mutex_);
  const absl::Time now = absl::Now();
  if (now < seek_silent_from_) return -1;
  for (auto one = watched_.begin(); one != watched_.end(); ++one) {
    // Of a system that does not count bytes, at least none with calls.
    if (InodeOf(one->socket) != one->inode || one->traffic->streams > 0 ||
        !End(*one, [](int socket) { return BytesReceived(socket) == 0; })) {
      continue;
    }
    const int socket = one->socket;
    Forget(*one);
    watched_.erase(one);
    return socket;
  }
  seek_silent_from_ = now + kSeekAgain;
  return -1;
}

// Whoever owns the socket may close it at any time, so its number may be another one's by now. A
// copy cannot become another one's.
template <typename Wrong>
bool ConnectionWatch::End(const Watched& one, const Wrong& wrong) {
  if (!wrong(one.socket)) return false;
  const base::Socket copy(static_cast<int>(syscall(SYS_fcntl, one.socket, F_DUPFD_CLOEXEC, 0)));
  if (copy.fd() < 0 || InodeOf(copy.fd()) != one.inode || !wrong(copy.fd())) return false;
  // A reset when gRPC closes it: a client that goes on sending would not see an end.
  const linger none{.l_onoff = 1, .l_linger = 0};
  setsockopt(copy.fd(), SOL_SOCKET, SO_LINGER, &none, sizeof(none));
  shutdown(copy.fd(), SHUT_RDWR);
  return true;
}

}  // namespace tandem::transport
