#include "tests/netproxy/netproxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/concurrency/mutex.h"

namespace tandem::netproxy {
namespace {

using concurrency::Mutex;
using concurrency::MutexLock;

constexpr size_t kMaxBuffered = 256 << 10;  // a way; then reading stops, as a full link would
constexpr size_t kReadBytes = 16 << 10;

struct Settings {
  absl::Duration delay;
  bool stalled[2] = {false, false};  // to the target, to the client
  bool swallowing = false;
};

struct Chunk {
  absl::Time due;
  std::string bytes;
};

// One way of a connection.
struct Pipe {
  int from = -1;
  int to = -1;
  std::deque<Chunk> chunks;
  size_t buffered = 0;
  absl::Time last_due = absl::InfinitePast();
  bool ended = false;  // `from` sent its end
  bool end_forwarded = false;
};

struct Connection {
  int client = -1;
  int target = -1;
  Pipe pipes[2];
  bool lost = false;
};

void CloseWithReset(int fd) {
  const linger at_once{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close(fd);
}

void MakeQuick(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

absl::Status SystemError(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

struct NetProxy::Impl {
  sockaddr_in target{};
  int listener = -1;
  int wake = -1;
  int port = 0;
  std::thread thread;

  mutable Mutex mutex;
  Settings settings TANDEM_GUARDED_BY(mutex);
  bool stopping TANDEM_GUARDED_BY(mutex) = false;
  bool reset TANDEM_GUARDED_BY(mutex) = false;

  // Of the thread alone.
  std::list<Connection> connections;

  ~Impl() {
    if (listener >= 0) close(listener);
    if (wake >= 0) close(wake);
  }

  void Wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(wake, &one, sizeof(one));
  }

  template <typename Change>
  void Apply(Change change) {
    {
      MutexLock lock(mutex);
      change();
    }
    Wake();
  }

  void Accept() {
    for (;;) {
      const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0) {
        close(fd);
        CloseWithReset(client);
      } else {
        MakeQuick(client);
        MakeQuick(fd);
        Connection& made = connections.emplace_back();
        made.client = client;
        made.target = fd;
        made.pipes[0].from = made.pipes[1].to = client;
        made.pipes[1].from = made.pipes[0].to = fd;
      }
    }
  }

  // When what arrives now is forwarded; never before what came earlier.
  static absl::Time Due(Pipe& pipe, absl::Duration delay) {
    pipe.last_due = std::max(pipe.last_due, absl::Now() + delay);
    return pipe.last_due;
  }

  // False: the connection broke.
  bool Read(Pipe& pipe, const Settings& now) {
    char buffer[kReadBytes];
    while (pipe.buffered < kMaxBuffered && !pipe.ended) {
      const ssize_t got = recv(pipe.from, buffer, sizeof(buffer), 0);
      if (got < 0) return WouldBlock();
      if (got == 0) {
        pipe.ended = true;
      } else if (!now.swallowing) {
        const auto size = static_cast<size_t>(got);
        pipe.chunks.push_back({Due(pipe, now.delay), std::string(buffer, size)});
        pipe.buffered += size;
      }
    }
    return true;
  }

  bool Write(Pipe& pipe) {
    const absl::Time now = absl::Now();
    while (!pipe.chunks.empty() && pipe.chunks.front().due <= now) {
      std::string& bytes = pipe.chunks.front().bytes;
      const ssize_t sent = send(pipe.to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return WouldBlock();
      pipe.buffered -= static_cast<size_t>(sent);
      bytes.erase(0, static_cast<size_t>(sent));
      if (!bytes.empty()) return true;
      pipe.chunks.pop_front();
    }
    if (pipe.ended && pipe.chunks.empty() && !pipe.end_forwarded) {
      shutdown(pipe.to, SHUT_WR);
      pipe.end_forwarded = true;
    }
    return true;
  }

  // What one round of poll waits for, and how long at most.
  int Wait(const Settings& now) {
    std::vector<pollfd> waited = {{listener, POLLIN, 0}, {wake, POLLIN, 0}};
    absl::Duration timeout = absl::Seconds(1);
    for (const Connection& connection : connections) {
      short events[2] = {0, 0};  // of the client, of the target
      for (int way = 0; way < 2; ++way) {
        const Pipe& pipe = connection.pipes[way];
        if (now.stalled[way]) continue;
        if (!pipe.ended && pipe.buffered < kMaxBuffered) events[way] |= POLLIN;
        if (pipe.chunks.empty()) continue;
        const absl::Duration left = pipe.chunks.front().due - absl::Now();
        if (left <= absl::ZeroDuration())
          events[1 - way] |= POLLOUT;
        else
          timeout = std::min(timeout, left);
      }
      // poll reports a lost connection even unasked; one that asks for nothing is left out, or it
      // would spin.
      if (events[0] != 0) waited.push_back({connection.client, events[0], 0});
      if (events[1] != 0) waited.push_back({connection.target, events[1], 0});
    }
    const timespec limit = absl::ToTimespec(timeout);
    const int ready = ppoll(waited.data(), waited.size(), &limit, nullptr);
    uint64_t count = 0;
    if ((waited[1].revents & POLLIN) != 0) {
      [[maybe_unused]] ssize_t got = read(wake, &count, sizeof(count));
    }
    if ((waited[0].revents & POLLIN) != 0) Accept();
    return ready;
  }

  void Forward(const Settings& now) {
    for (Connection& connection : connections) {
      for (int way = 0; way < 2 && !connection.lost; ++way) {
        Pipe& pipe = connection.pipes[way];
        if (now.stalled[way]) continue;
        const bool whole = Read(pipe, now) && (now.swallowing || Write(pipe));
        if (!whole && !now.swallowing) connection.lost = true;
        if (!whole && now.swallowing) pipe.ended = true;
      }
    }
  }

  void Sweep(bool all) {
    for (auto it = connections.begin(); it != connections.end();) {
      const bool over = it->pipes[0].end_forwarded && it->pipes[1].end_forwarded;
      if (!all && !it->lost && !over) {
        ++it;
        continue;
      }
      for (int fd : {it->client, it->target}) over && !all ? (void)close(fd) : CloseWithReset(fd);
      it = connections.erase(it);
    }
  }

  void Run() {
    for (;;) {
      Settings now;
      bool reset_now = false;
      {
        MutexLock lock(mutex);
        if (stopping) break;
        now = settings;
        reset_now = std::exchange(reset, false);
      }
      if (reset_now) Sweep(/*all=*/true);
      Forward(now);
      Sweep(/*all=*/false);
      Wait(now);
    }
    Sweep(/*all=*/true);
  }
};

NetProxy::NetProxy(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->thread = std::thread([this] { impl_->Run(); });
}

NetProxy::~NetProxy() {
  impl_->Apply([this]() TANDEM_NO_THREAD_SAFETY_ANALYSIS { impl_->stopping = true; });
  impl_->thread.join();
}

absl::StatusOr<std::unique_ptr<NetProxy>> NetProxy::Start(const std::string& target) {
  auto address = base::ParseAddress("target", target);
  if (!address.ok()) return address.status();
  auto impl = std::make_unique<Impl>();
  impl->target.sin_family = AF_INET;
  impl->target.sin_port = htons(address->port);
  const std::string host = address->host == "localhost" ? "127.0.0.1" : address->host;
  if (inet_pton(AF_INET, host.c_str(), &impl->target.sin_addr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("target ", target, " is not an IPv4 address"));
  }
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(here);
  impl->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  impl->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  auto* generic = reinterpret_cast<sockaddr*>(&here);
  if (impl->wake < 0 || impl->listener < 0 || bind(impl->listener, generic, size) != 0 ||
      listen(impl->listener, 128) != 0 || getsockname(impl->listener, generic, &size) != 0) {
    return SystemError("cannot listen on 127.0.0.1");
  }
  impl->port = ntohs(here.sin_port);
  return std::unique_ptr<NetProxy>(new NetProxy(std::move(impl)));
}

int NetProxy::port() const { return impl_->port; }
std::string NetProxy::address() const { return absl::StrCat("127.0.0.1:", impl_->port); }

void NetProxy::SetDelay(absl::Duration delay) {
  impl_->Apply([&]() TANDEM_NO_THREAD_SAFETY_ANALYSIS { impl_->settings.delay = delay; });
}

void NetProxy::Stall(Direction direction) {
  impl_->Apply([&]() TANDEM_NO_THREAD_SAFETY_ANALYSIS {
    if (direction != Direction::kToClient) impl_->settings.stalled[0] = true;
    if (direction != Direction::kToTarget) impl_->settings.stalled[1] = true;
  });
}

void NetProxy::HalfOpen() {
  impl_->Apply([this]() TANDEM_NO_THREAD_SAFETY_ANALYSIS { impl_->settings.swallowing = true; });
}

void NetProxy::Resume() {
  impl_->Apply([this]() TANDEM_NO_THREAD_SAFETY_ANALYSIS {
    if (impl_->settings.swallowing) impl_->reset = true;  // bytes are missing in all of them
    impl_->settings.swallowing = false;
    impl_->settings.stalled[0] = impl_->settings.stalled[1] = false;
  });
}

void NetProxy::Reset() {
  impl_->Apply([this]() TANDEM_NO_THREAD_SAFETY_ANALYSIS { impl_->reset = true; });
}

}  // namespace tandem::netproxy
