// A TCP proxy that makes a network bad: the tests' stand-in for netem. Listens on a free port of
// 127.0.0.1 and forwards each connection to one target, with a delay, and on demand stalls, resets,
// or leaves links half-open.
//
// Thread-safe. One thread of its own (poll); each change takes effect within a millisecond or so.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::netproxy {

enum class Direction { kToTarget, kToClient, kBoth };

class NetProxy {
 public:
  // `target`: an IPv4 ADDRESS:PORT, such as "127.0.0.1:50051"; need not be there yet: a client of
  // an absent target is reset.
  static absl::StatusOr<std::unique_ptr<NetProxy>> Start(const std::string& target);
  ~NetProxy();  // resets all connections
  NetProxy(const NetProxy&) = delete;
  NetProxy& operator=(const NetProxy&) = delete;

  int port() const;
  std::string address() const;  // "127.0.0.1:<port>"

  void SetDelay(absl::Duration delay);  // one way, of the bytes that arrive from now on
  // Forwards nothing more that way, keeps reading nothing, closes nothing: a stopped process or a
  // dead link.
  void Stall(Direction direction);
  // Swallows what arrives in both directions, also the ends of connections: each side believes that
  // the other is there. What was swallowed never comes back, so connections of that time are lost.
  void HalfOpen();
  // Ends Stall and HalfOpen. What was held back by Stall goes on.
  void Resume();
  // Ends all connections with RST on both sides.
  void Reset();

 private:
  struct Impl;
  explicit NetProxy(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::netproxy
