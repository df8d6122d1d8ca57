#include "common/transport/acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/system_clock.h"
#include "common/transport/connection_limit.h"

namespace tandem::transport {
namespace {

using base::Socket;

constexpr int kAcceptAgainMs = 100;                 // when there is no descriptor left
constexpr absl::Duration kTell = absl::Minutes(1);  // between log lines about one cause
constexpr size_t kAtOnce = 64;  // connections that are accepted before the thread looks around
// As gRPC sets it where it listens: who acknowledges nothing for so long is gone.
constexpr int kUserTimeoutMs = 5000;

// Address and port, and nothing else of it.
std::string Key(const sockaddr_storage& address) {
  std::string key = absl::StrCat(base::PortOf(address), " ");
  if (address.ss_family == AF_INET6) {
    const in6_addr& bytes = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    key.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  } else {
    const in_addr& bytes = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    key.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  }
  return key;
}

socklen_t SizeOf(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

// Where a listener is reached from this machine: all addresses are reached by the loopback.
sockaddr_storage ReachedAt(const Socket& listener) {
  sockaddr_storage bound = base::BoundAddress(listener);
  if (bound.ss_family == AF_INET6) {
    in6_addr& address = reinterpret_cast<sockaddr_in6&>(bound).sin6_addr;
    if (IN6_IS_ADDR_UNSPECIFIED(&address)) {
      // 127.0.0.1, for a machine may have IPv6 and no loopback of it.
      address = {};
      address.s6_addr[10] = address.s6_addr[11] = 0xff;
      address.s6_addr[12] = 127;
      address.s6_addr[15] = 1;
    }
  } else {
    in_addr& address = reinterpret_cast<sockaddr_in&>(bound).sin_addr;
    if (address.s_addr == htonl(INADDR_ANY)) address.s_addr = htonl(INADDR_LOOPBACK);
  }
  return bound;
}

bool WaitFor(int fd, short events, absl::Time end) {
  const absl::Duration left = std::max(end - absl::Now(), absl::ZeroDuration());
  pollfd polled{fd, events, 0};
  return poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) > 0;
}

// One log line per minute about one cause.
class Complaint {
 public:
  explicit Complaint(absl::string_view event) : event_(event) {}
  void About(absl::string_view reason) {
    ++times_;
    const absl::Time now = absl::Now();
    if (now - told_ < kTell) return;
    told_ = now;
    TANDEM_LOG(kWarning)
        << base::LogFields(event_).Add("reason", reason).Add("times", std::exchange(times_, 0));
  }

 private:
  const absl::string_view event_;
  int64_t times_ = 0;
  absl::Time told_ = absl::InfinitePast();
};

}  // namespace

class Acceptor::Loop {
 public:
  Loop(AcceptorOptions options, int stop)
      : options_(std::move(options)),
        stop_(stop),
        reached_at_(ReachedAt(options_.listeners.front())),
        limit_(options_.max_connections, MaxDescriptors() - ReservedDescriptors(MaxDescriptors())) {
  }

  // Until `stop` is readable.
  void Run() {
    concurrency::NameThisThread("acceptor");
    bool pause = false;
    while (true) {
      std::vector<pollfd> polled = {{stop_, POLLIN, 0}};
      for (const Socket& listener : options_.listeners) {
        polled.push_back({listener.fd(), static_cast<short>(pause ? 0 : POLLIN), 0});
      }
      const int ready = poll(polled.data(), polled.size(), pause ? kAcceptAgainMs : -1);
      TANDEM_CHECK(ready >= 0 || errno == EINTR) << std::strerror(errno);
      pause = false;
      if (ready < 0) continue;
      if (polled[0].revents != 0) return;
      for (size_t i = 0; i < options_.listeners.size(); ++i) {
        if (polled[1 + i].revents != 0) pause = !Accept(options_.listeners[i]) || pause;
      }
    }
  }

  PortState Ask(absl::Duration patience) {
    const absl::Time end = absl::Now() + patience;
    Socket socket(::socket(reached_at_.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket.fd() < 0) return PortState::kSilent;
    // Bound first, so that the loop knows whose it is before it comes.
    sockaddr_storage from = reached_at_;
    if (from.ss_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6&>(from).sin6_port = 0;
    } else {
      reinterpret_cast<sockaddr_in&>(from).sin_port = 0;
    }
    if (bind(socket.fd(), reinterpret_cast<const sockaddr*>(&from), SizeOf(from)) != 0) {
      return PortState::kSilent;
    }
    {
      concurrency::MutexLock lock(mutex_);
      asks_ = Key(base::BoundAddress(socket));
    }
    if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&reached_at_),
                SizeOf(reached_at_)) != 0 &&
        errno != EINPROGRESS) {
      return PortState::kSilent;
    }
    if (!WaitFor(socket.fd(), POLLOUT, end)) return PortState::kSilent;
    if (!WaitFor(socket.fd(), POLLIN, end)) return PortState::kSilent;
    char byte = 0;
    const ssize_t got = recv(socket.fd(), &byte, 1, 0);
    if (got < 0) return PortState::kSilent;
    return got == 0 ? PortState::kAdmits : PortState::kRefuses;
  }

 private:
  // False: no descriptor is free.
  bool Accept(const Socket& listener) {
    for (size_t i = 0; i < kAtOnce; ++i) {
      sockaddr_storage peer{};
      socklen_t size = sizeof(peer);
      Socket socket(accept4(listener.fd(), reinterpret_cast<sockaddr*>(&peer), &size,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket.fd() < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
        waits_.About(std::strerror(errno));
        return false;
      }
      if (IsOurs(peer)) {
        Answer(socket);
        continue;
      }
      socket.SetOption(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
      const int admitted =
          limit_.Admit(socket.fd(), absl::Now()) ? socket.Release() : TakeAPlace(std::move(socket));
      if (admitted < 0) {
        refused_.About(absl::StrCat("all ", options_.max_connections,
                                    " connections are taken, or the descriptors for them"));
        continue;
      }
      options_.take(admitted);
    }
    return true;
  }

  // To Ask: it is closed, and before that gets a byte if another one would be refused.
  void Answer(const Socket& socket) {
    if (limit_.HasRoom(socket.fd(), absl::Now()) || EndAnother()) return;
    const char refused = 0;
    send(socket.fd(), &refused, 1, MSG_NOSIGNAL);
  }

  // In favour of one for which there is no room.
  bool EndAnother() {
    const int closed = options_.make_room == nullptr ? -1 : options_.make_room();
    if (closed < 0) return false;
    gave_way_.About(absl::StrCat("all ", options_.max_connections,
                                 " connections are taken, or the descriptors for them: one that "
                                 "was silent was closed"));
    limit_.Forget(closed);
    return true;
  }

  // Another gives way in favour of this one. Its descriptor, which may be a new one; -1: none does.
  int TakeAPlace(Socket socket) {
    if (!EndAnother()) return -1;
    // The lowest one that is free, so that none is taken of those that stay in reserve.
    Socket lowest(fcntl(socket.fd(), F_DUPFD_CLOEXEC, 0));
    return lowest.fd() >= 0 && limit_.Admit(lowest.fd(), absl::Now()) ? lowest.Release() : -1;
  }

  bool IsOurs(const sockaddr_storage& peer) TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    return !asks_.empty() && Key(peer) == asks_;
  }

  const AcceptorOptions options_;
  const int stop_;
  const sockaddr_storage reached_at_;
  concurrency::Mutex mutex_;
  std::string asks_ TANDEM_GUARDED_BY(mutex_);  // the address that Answers connects from
  // The loop's thread alone.
  ConnectionLimit limit_;
  Complaint waits_{"connection_waits"};
  Complaint refused_{"connection_refused"};
  Complaint gave_way_{"connection_gave_way"};
};

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(AcceptorOptions options) {
  TANDEM_CHECK(!options.listeners.empty() && options.max_connections > 0);
  const int port = base::PortOf(base::BoundAddress(options.listeners.front()));
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot accept at port ", port, ": ", std::strerror(errno)));
  }
  auto loop = std::make_unique<Loop>(std::move(options), stop);
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(loop), port, stop));
}

Acceptor::Acceptor(std::unique_ptr<Loop> loop, int port, int stop)
    : loop_(std::move(loop)), port_(port), stop_(stop), thread_([this] { loop_->Run(); }) {}

Acceptor::~Acceptor() {
  const uint64_t one = 1;
  TANDEM_CHECK(write(stop_, &one, sizeof(one)) == sizeof(one)) << std::strerror(errno);
  thread_.join();
  close(stop_);
}

PortState Acceptor::Ask(absl::Duration patience) { return loop_->Ask(patience); }

}  // namespace tandem::transport
