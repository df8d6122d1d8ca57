// One port for two protocols: HTTP/2 (gRPC's health) and HTTP/1.1 (GET /metrics).
//
// The first bytes of a connection tell which: HTTP/2 begins with "PRI * HTTP/2.0". A connection of
// that kind is handed over untouched; any other gets one answer (admin_http.h) and is closed. One
// thread serves them all. What a client may hold is bounded: 5 s, 8 KiB, one of 128 places (the
// oldest yields).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/address.h"

namespace tandem::admin {

struct AdminPortOptions {
  base::Address address;  // port 0: any free one
  // As in ServerHostOptions. Called on the port's thread: while it runs, nobody else is served.
  std::function<std::string()> metrics;
  // Takes over a connected, non-blocking socket from which nothing was read, and closes it in the
  // end. Called on the port's thread.
  std::function<void(int socket)> http2;
  absl::Duration patience = absl::Seconds(5);  // from a connection to its end, HTTP/1.1's
};

// Thread-safe.
class AdminPort {
 public:
  // UNAVAILABLE names an address that cannot be bound.
  static absl::StatusOr<std::unique_ptr<AdminPort>> Start(AdminPortOptions options);
  // Takes no more connections and closes those that were not handed over. Returns when no function
  // of the options runs any more.
  ~AdminPort();
  AdminPort(const AdminPort&) = delete;
  AdminPort& operator=(const AdminPort&) = delete;

  int port() const { return port_; }

 private:
  class Loop;
  AdminPort(std::unique_ptr<Loop> loop, int port, int stop);

  const std::unique_ptr<Loop> loop_;
  const int port_;
  const int stop_;  // an eventfd that ends the loop
  std::thread thread_;
};

}  // namespace tandem::admin
