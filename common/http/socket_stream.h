// The bytes of a connection: a socket that does not block, with TLS or without.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/listen.h"
#include "common/security/socket_tls.h"

namespace tandem::http {

// Not thread-safe.
class SocketStream {
 public:
  enum class Result {
    kOk,     // something went through
    kLater,  // nothing does now: wait until the socket is ready
    kOver,   // the peer has ended its side, or the connection is broken
  };

  // `tls` null: plaintext.
  SocketStream(base::Socket socket, security::TlsConnection tls)
      : socket_(std::move(socket)), tls_(std::move(tls)), shaken_(tls_ == nullptr) {}

  int fd() const { return socket_.fd(); }
  bool encrypted() const { return tls_ != nullptr; }
  // Of a handshake that is not over: whether it waits to write.
  bool handshake_writes() const { return handshake_writes_; }

  Result Handshake();
  // Appends what is there to `to`, at most until that has `most` bytes.
  Result Read(std::string& to, size_t most);
  // `bytes` are not empty. How many of them went is in `written`.
  Result Write(absl::string_view bytes, size_t& written);
  // Says that nothing more comes from this side. A close with bytes unread would be a reset, which
  // may overtake what was written.
  void ShutDown();

 private:
  Result TlsFailed(int result);

  base::Socket socket_;
  security::TlsConnection tls_;  // before the socket is closed
  bool shaken_;
  bool handshake_writes_ = false;
};

}  // namespace tandem::http
