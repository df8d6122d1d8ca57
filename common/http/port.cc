#include "common/http/port.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/listen.h"
#include "common/base/status_macros.h"
#include "common/concurrency/system_clock.h"
#include "common/security/socket_tls.h"
#include "common/transport/acceptor.h"
#include "common/transport/byte_budget.h"
#include "common/transport/port_watch.h"

namespace tandem::http {
namespace {

using base::Socket;

constexpr uint64_t kMailboxId = 0;
constexpr int kEvents = 256;  // at a time
// What the kernel keeps of an answer is not known to be unread, so it is little.
constexpr int kSendBuffer = 64 << 10;
constexpr int kProbeSeconds = 10;
constexpr absl::Duration kTick = absl::Milliseconds(250);  // between looks at who is late

}  // namespace

class Port::Loop {
 public:
  Loop(const PortOptions& options, Handler& handler, std::shared_ptr<Mailbox> mailbox,
       std::unique_ptr<security::SocketTls> tls, Socket epoll)
      : parts_{&handler, std::move(mailbox), options.limits, options.patience,
               [this](const Connection& asks) { return TakeBack(asks); }},
        tls_(std::move(tls)),
        epoll_(std::move(epoll)) {
    Watch(EPOLL_CTL_ADD, parts_.mailbox->event(), kMailboxId, EPOLLIN);
  }

  void Run() {
    concurrency::NameThisThread("http");
    // OpenSSL writes without MSG_NOSIGNAL.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    while (!stopped_) Turn();
    connections_.clear();
    ShowCount();
  }

  // False: some are left at `until`.
  bool WaitUntilEmpty(absl::Time until) TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    while (count_ > 0 && absl::Now() < until) empty_.WaitFor(mutex_, until - absl::Now());
    return count_ == 0;
  }

 private:
  struct Watched {
    std::unique_ptr<Connection> connection;
    uint32_t interest = 0;
  };

  void Turn() {
    std::array<epoll_event, kEvents> events;
    const int timeout = connections_.empty() ? -1 : static_cast<int>(kTick / absl::Milliseconds(1));
    const int ready = epoll_wait(epoll_.fd(), events.data(), kEvents, timeout);
    TANDEM_CHECK(ready >= 0 || errno == EINTR) << std::strerror(errno);
    const concurrency::Instant now = clock_.Now();
    bool mail = false;
    for (int i = 0; i < ready; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id == kMailboxId) {
        mail = true;
        continue;
      }
      const auto it = connections_.find(id);
      if (it == connections_.end()) continue;
      it->second.connection->OnReady(events[static_cast<size_t>(i)].events, now);
      Settle(it);
    }
    if (mail) ReadMail(now);
    if (now >= tick_at_) {
      tick_at_ = now + kTick;
      ForEach([now](Connection& connection) { connection.OnTime(now); });
    }
    ShowCount();
  }

  void ReadMail(concurrency::Instant now) {
    Mailbox::Mail mail = parts_.mailbox->Take();
    for (int fd : mail.sockets) Open(Socket(fd), now);
    for (uint64_t id : mail.connections) {
      const auto it = connections_.find(id);
      if (it == connections_.end()) continue;
      it->second.connection->OnReply(now);
      Settle(it);
    }
    if (mail.make_room) parts_.mailbox->MadeRoom(EndOldest());
    if (mail.refuse && !std::exchange(refusing_, true)) {
      ForEach([](Connection& connection) { connection.Refuse(); });
    }
    stopped_ = mail.stop;
  }

  void Open(Socket socket, concurrency::Instant now) {
    if (refusing_) return;
    socket.SetOption(IPPROTO_TCP, TCP_NODELAY, 1);
    socket.SetOption(SOL_SOCKET, SO_SNDBUF, kSendBuffer);
    // The acceptor's is short, and Linux counts a client that does not read as one that is gone.
    // Probes find a client that is gone without a word while nothing is sent.
    socket.SetOption(IPPROTO_TCP, TCP_USER_TIMEOUT,
                     static_cast<int>(std::min(parts_.patience.reader, absl::Hours(24)) /
                                      absl::Milliseconds(1)));
    socket.SetOption(SOL_SOCKET, SO_KEEPALIVE, 1);
    socket.SetOption(IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
    socket.SetOption(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
    security::TlsConnection tls;
    if (tls_ != nullptr) {
      tls = tls_->Accept(socket.fd());
      if (tls == nullptr) return;
    }
    std::string client = base::PeerName(socket.fd());
    const uint64_t id = ++last_id_;
    auto connection = std::make_unique<Connection>(
        id, SocketStream(std::move(socket), std::move(tls)), std::move(client), parts_, now);
    if (connection->over()) return;
    const uint32_t interest = connection->interest();
    Watch(EPOLL_CTL_ADD, connection->fd(), id, interest);
    connections_.emplace(id, Watched{std::move(connection), interest});
  }

  using Iterator = std::unordered_map<uint64_t, Watched>::iterator;

  // The connection that fits and was silent the longest.
  template <typename Fits>
  Iterator Oldest(const Fits& fits) {
    // Of those that were heard of in the same turn, the one that came first.
    const auto heard_of = [](Iterator it) {
      return std::pair(it->second.connection->read_at(), it->first);
    };
    auto oldest = connections_.end();
    for (auto it = connections_.begin(); it != connections_.end(); ++it) {
      if (!fits(*it->second.connection)) continue;
      if (oldest == connections_.end() || heard_of(it) < heard_of(oldest)) oldest = it;
    }
    return oldest;
  }

  // Its descriptor; -1: all have asked something.
  int EndOldest() {
    const auto it = Oldest([](const Connection& connection) { return connection.waits(); });
    if (it == connections_.end()) return -1;
    const int fd = it->second.connection->fd();
    connections_.erase(it);
    return fd;
  }

  // What follows of it comes as a reply does.
  bool TakeBack(const Connection& asks) {
    const absl::string_view address = transport::AddressOf(asks.client());
    const auto it = Oldest([&](const Connection& other) {
      return &other != &asks && other.holds_body() &&
             transport::AddressOf(other.client()) == address;
    });
    if (it == connections_.end()) return false;
    it->second.connection->GiveBack();
    return true;
  }

  // After a call of the connection. Returns the next one.
  Iterator Settle(Iterator it) {
    Watched& watched = it->second;
    if (watched.connection->over()) return connections_.erase(it);
    const uint32_t interest = watched.connection->interest();
    if (interest != watched.interest) {
      watched.interest = interest;
      Watch(EPOLL_CTL_MOD, watched.connection->fd(), it->first, interest);
    }
    return ++it;
  }

  template <typename Call>
  void ForEach(const Call& call) {
    for (auto it = connections_.begin(); it != connections_.end();) {
      call(*it->second.connection);
      it = Settle(it);
    }
  }

  void Watch(int operation, int fd, uint64_t id, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    TANDEM_CHECK(epoll_ctl(epoll_.fd(), operation, fd, &event) == 0) << std::strerror(errno);
  }

  void ShowCount() TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    count_ = connections_.size();
    if (count_ == 0) empty_.NotifyAll();
  }

  const ConnectionParts parts_;
  const std::unique_ptr<security::SocketTls> tls_;  // null: plaintext
  const Socket epoll_;
  const concurrency::SteadyClock clock_;
  std::unordered_map<uint64_t, Watched> connections_;
  uint64_t last_id_ = kMailboxId;
  bool refusing_ = false;
  bool stopped_ = false;
  concurrency::Instant tick_at_ = concurrency::Instant::InfinitePast();
  concurrency::Mutex mutex_;
  concurrency::CondVar empty_;
  size_t count_ TANDEM_GUARDED_BY(mutex_) = 0;
};

absl::StatusOr<std::unique_ptr<Port>> Port::Start(const PortOptions& options, Handler& handler) {
  std::unique_ptr<security::SocketTls> tls;
  if (options.tls.enabled()) {
    TANDEM_ASSIGN_OR_RETURN(tls, security::SocketTls::Create(options.tls));
  }
  TANDEM_ASSIGN_OR_RETURN(std::vector<Socket> listeners, base::Listen(options.address));
  Socket epoll(epoll_create1(EPOLL_CLOEXEC));
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  auto mailbox = std::make_shared<Mailbox>(event);
  if (epoll.fd() < 0 || event < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot watch ", options.address.ToString(), ": ", std::strerror(errno)));
  }
  auto loop = std::make_unique<Loop>(options, handler, mailbox, std::move(tls), std::move(epoll));
  TANDEM_ASSIGN_OR_RETURN(
      auto acceptor,
      transport::Acceptor::Start({.listeners = std::move(listeners),
                                  .max_connections = options.max_connections,
                                  .take = [mailbox](int socket) { mailbox->AddSocket(socket); },
                                  .make_room = [mailbox] { return mailbox->MakeRoom(); }}));
  return std::unique_ptr<Port>(
      new Port(std::move(loop), std::move(mailbox), std::move(acceptor), options.ask_every));
}

Port::Port(std::unique_ptr<Loop> loop, std::shared_ptr<Mailbox> mailbox,
           std::unique_ptr<transport::Acceptor> acceptor, absl::Duration ask_every)
    : loop_(std::move(loop)),
      mailbox_(std::move(mailbox)),
      port_(acceptor->port()),
      acceptor_(std::move(acceptor)),
      watch_(std::make_unique<transport::PortWatch>(
          [asked = acceptor_.get(), ask_every] { return asked->Ask(ask_every); },
          [this](transport::PortState state) { admits_ = state == transport::PortState::kAdmits; },
          ask_every)),
      thread_([this] { loop_->Run(); }) {}

Port::~Port() { Drain(absl::ZeroDuration()); }

void Port::Refuse() {
  {
    concurrency::MutexLock lock(mutex_);
    watch_ = nullptr;  // before the acceptor that it asks
    acceptor_ = nullptr;
  }
  mailbox_->Refuse();
}

void Port::Drain(absl::Duration grace) {
  Refuse();
  loop_->WaitUntilEmpty(absl::Now() + grace);
  concurrency::MutexLock lock(mutex_);
  if (!thread_.joinable()) return;
  mailbox_->Stop();
  thread_.join();
}

}  // namespace tandem::http
