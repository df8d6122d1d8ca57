#include "common/http/socket_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace tandem::http {
namespace {

constexpr size_t kReadAtOnce = size_t{16} << 10;

}  // namespace

SocketStream::Result SocketStream::Handshake() {
  if (shaken_) return Result::kOk;
  ERR_clear_error();
  const int result = SSL_do_handshake(tls_.get());
  if (result == 1) {
    shaken_ = true;
    handshake_writes_ = false;
    return Result::kOk;
  }
  handshake_writes_ = SSL_get_error(tls_.get(), result) == SSL_ERROR_WANT_WRITE;
  return TlsFailed(result);
}

SocketStream::Result SocketStream::Read(std::string& to, size_t most) {
  bool some = false;
  while (to.size() < most) {
    const size_t before = to.size();
    const size_t room = std::min(most - before, kReadAtOnce);
    to.resize(before + room);
    Result result = Result::kOk;
    size_t got = 0;
    if (tls_ != nullptr) {
      ERR_clear_error();
      const int read = SSL_read(tls_.get(), to.data() + before, static_cast<int>(room));
      got = static_cast<size_t>(std::max(read, 0));
      if (read <= 0) result = TlsFailed(read);
    } else {
      const ssize_t read = recv(socket_.fd(), to.data() + before, room, 0);
      got = static_cast<size_t>(std::max<ssize_t>(read, 0));
      if (read == 0) result = Result::kOver;
      if (read < 0) {
        const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        result = later ? Result::kLater : Result::kOver;
      }
    }
    to.resize(before + got);
    // What came before an end is read first; the end comes again.
    if (result != Result::kOk) return some ? Result::kOk : result;
    some = true;
  }
  return Result::kOk;
}

SocketStream::Result SocketStream::Write(absl::string_view bytes, size_t& written) {
  written = 0;
  if (tls_ != nullptr) {
    ERR_clear_error();
    const int wrote = SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (wrote <= 0) return TlsFailed(wrote);
    written = static_cast<size_t>(wrote);
    return Result::kOk;
  }
  const ssize_t wrote = send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (wrote < 0) {
    const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return later ? Result::kLater : Result::kOver;
  }
  written = static_cast<size_t>(wrote);
  return Result::kOk;
}

void SocketStream::ShutDown() {
  if (tls_ != nullptr && shaken_) {
    ERR_clear_error();
    SSL_shutdown(tls_.get());
  }
  shutdown(socket_.fd(), SHUT_WR);
}

// After it the connection may not be used, unless the result is kLater.
SocketStream::Result SocketStream::TlsFailed(int result) {
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return Result::kLater;
    default:
      ERR_clear_error();
      return Result::kOver;
  }
}

}  // namespace tandem::http
