#include "common/admin/admin_port.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/admin/admin_http.h"
#include "common/base/check.h"
#include "common/base/listen.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/concurrency/system_clock.h"

namespace tandem::admin {
namespace {

constexpr size_t kMaxConnections = 128;
constexpr absl::Duration kAcceptAgain =
    absl::Milliseconds(100);                  // when there is no descriptor left
constexpr absl::string_view kHttp2 = "PRI ";  // no method of HTTP/1.1 begins like that

using base::Socket;

struct Connection {
  enum class State { kNew, kReading, kWriting, kDraining, kOver };

  Connection(Socket s, concurrency::Instant until) : socket(std::move(s)), end(until) {}

  Socket socket;
  concurrency::Instant end;
  State state = State::kNew;
  std::string received;
  std::string answer;  // what is still to be sent of it
};

}  // namespace

class AdminPort::Loop {
 public:
  Loop(AdminPortOptions options, std::vector<Socket> listeners, int stop)
      : options_(std::move(options)), listeners_(std::move(listeners)), stop_(stop) {}

  // Until `stop` is readable.
  void Run() {
    concurrency::NameThisThread("admin");
    while (Wait()) {
      for (size_t i = 0; i < listeners_.size(); ++i) {
        if (polled_[1 + i].revents != 0) Accept(listeners_[i]);
      }
      // Those that were just accepted are in the list behind the polled ones.
      auto connection = connections_.begin();
      for (size_t i = 1 + listeners_.size(); i < polled_.size(); ++i, ++connection) {
        if (polled_[i].revents != 0) Serve(*connection);
      }
      const concurrency::Instant now = clock_.Now();
      connections_.remove_if([now](const Connection& c) {
        return c.state == Connection::State::kOver || c.end <= now;
      });
      while (connections_.size() > kMaxConnections) connections_.pop_front();
    }
  }

 private:
  // False: it is to end.
  bool Wait() {
    polled_.clear();
    polled_.push_back({stop_, POLLIN, 0});
    const concurrency::Instant now = clock_.Now();
    concurrency::Instant wake = concurrency::Instant::InfiniteFuture();
    const bool accepts = accept_from_ <= now;
    if (!accepts) wake = accept_from_;
    for (const Socket& listener : listeners_) {
      polled_.push_back({listener.fd(), static_cast<short>(accepts ? POLLIN : 0), 0});
    }
    for (const Connection& connection : connections_) {
      const bool writes = connection.state == Connection::State::kWriting;
      polled_.push_back({connection.socket.fd(), static_cast<short>(writes ? POLLOUT : POLLIN), 0});
      wake = std::min(wake, connection.end);
    }
    int timeout = -1;  // for ever
    if (wake != concurrency::Instant::InfiniteFuture()) {
      const absl::Duration wait = std::max(wake - now, absl::ZeroDuration());
      timeout = static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1;
    }
    const int ready = poll(polled_.data(), polled_.size(), timeout);
    TANDEM_CHECK(ready >= 0 || errno == EINTR) << std::strerror(errno);
    if (ready < 0) {
      for (pollfd& polled : polled_) polled.revents = 0;
    }
    return polled_[0].revents == 0;
  }

  void Accept(const Socket& listener) {
    // No more than there are places at a time, so that those who have one are served in between.
    for (size_t i = 0; i < kMaxConnections; ++i) {
      Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket.fd() < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          accept_from_ = clock_.Now() + kAcceptAgain;
          if (!std::exchange(told_, true)) {
            TANDEM_LOG(kWarning) << "admin port: a connection waits: " << std::strerror(errno);
          }
        } else if (errno == EINTR || errno == ECONNABORTED) {
          continue;
        }
        return;
      }
      // Readable once as much is there as tells the protocol: a look at less would be in vain.
      socket.SetOption(SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(kHttp2.size()));
      connections_.emplace_back(std::move(socket), clock_.Now() + options_.patience);
    }
  }

  void Serve(Connection& connection) {
    using State = Connection::State;
    if (connection.state == State::kNew) Tell(connection);
    if (connection.state == State::kReading) Read(connection);
    if (connection.state == State::kWriting) Write(connection);
    if (connection.state == State::kDraining) Drain(connection);
  }

  // Which protocol?
  void Tell(Connection& connection) {
    char first[kHttp2.size()];
    const ssize_t got = recv(connection.socket.fd(), first, sizeof(first), MSG_PEEK);
    if (got < 0 && Later()) return;
    if (got != static_cast<ssize_t>(sizeof(first))) {  // it ended, or broke
      connection.state = Connection::State::kOver;
      return;
    }
    connection.socket.SetOption(SOL_SOCKET, SO_RCVLOWAT, 1);
    if (absl::string_view(first, sizeof(first)) != kHttp2) {
      connection.state = Connection::State::kReading;
      return;
    }
    connection.state = Connection::State::kOver;
    options_.http2(connection.socket.Release());
  }

  void Read(Connection& connection) {
    char bytes[4096];
    while (true) {
      const ssize_t got = recv(connection.socket.fd(), bytes, sizeof(bytes), 0);
      if (got < 0 && Later()) return;
      if (got <= 0) {
        connection.state = Connection::State::kOver;
        return;
      }
      connection.received.append(bytes, static_cast<size_t>(got));
      std::optional<std::string> answer = HttpAnswer(connection.received, options_.metrics);
      if (!answer.has_value()) continue;
      connection.answer = *std::move(answer);
      connection.state = Connection::State::kWriting;
      return;
    }
  }

  void Write(Connection& connection) {
    while (!connection.answer.empty()) {
      const ssize_t sent = send(connection.socket.fd(), connection.answer.data(),
                                connection.answer.size(), MSG_NOSIGNAL);
      if (sent < 0) {
        if (!Later()) connection.state = Connection::State::kOver;
        return;
      }
      connection.answer.erase(0, static_cast<size_t>(sent));
    }
    // A close with bytes unread would be a reset, which may overtake the answer.
    shutdown(connection.socket.fd(), SHUT_WR);
    connection.state = Connection::State::kDraining;
  }

  // Until the client has closed its side as well.
  void Drain(Connection& connection) {
    char bytes[4096];
    ssize_t got = 0;
    do {
      got = recv(connection.socket.fd(), bytes, sizeof(bytes), 0);
    } while (got > 0);
    if (got < 0 && Later()) return;
    connection.state = Connection::State::kOver;
  }

  // After a failed call on a socket.
  static bool Later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

  const AdminPortOptions options_;
  const std::vector<Socket> listeners_;
  const int stop_;
  const concurrency::SteadyClock clock_;
  std::list<Connection> connections_;  // the oldest first
  std::vector<pollfd> polled_;         // stop, listeners, connections: in their order
  concurrency::Instant accept_from_ = concurrency::Instant::InfinitePast();
  bool told_ = false;
};

absl::StatusOr<std::unique_ptr<AdminPort>> AdminPort::Start(AdminPortOptions options) {
  TANDEM_CHECK(options.http2 != nullptr) << "nobody takes connections of HTTP/2";
  TANDEM_ASSIGN_OR_RETURN(std::vector<Socket> listeners, base::Listen(options.address));
  const int port = base::PortOf(base::BoundAddress(listeners[0]));
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot watch ", options.address.ToString(), ": ", std::strerror(errno)));
  }
  auto loop = std::make_unique<Loop>(std::move(options), std::move(listeners), stop);
  return std::unique_ptr<AdminPort>(new AdminPort(std::move(loop), port, stop));
}

AdminPort::AdminPort(std::unique_ptr<Loop> loop, int port, int stop)
    : loop_(std::move(loop)), port_(port), stop_(stop), thread_([this] { loop_->Run(); }) {}

AdminPort::~AdminPort() {
  const uint64_t one = 1;
  TANDEM_CHECK(write(stop_, &one, sizeof(one)) == sizeof(one)) << std::strerror(errno);
  thread_.join();
  close(stop_);
}

}  // namespace tandem::admin
