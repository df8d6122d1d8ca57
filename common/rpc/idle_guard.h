// The cure of gRPC 1.51's idle stall.
//
// Where gRPC has no background poller (Linux with epoll, as Debian builds it), its callback API runs on
// threads of its own that wait for events in slices: after a second without any event they go to sleep
// for 100 ms between looks. A round trip that begins then takes 50 to 80 ms instead of 0.1. A lone
// request, or a target whose step takes longer than a second, would meet this at every message.
//
// These threads serve one completion queue a process, which all callback servers and clients of the
// process share. So one stream inside the process that carries a byte every 300 ms keeps them awake, for
// all streams, at three wake-ups a second. bench/rpc measures the first message after idling, with and
// without.
#pragma once

#include <memory>

namespace tandem::rpc {

// Keeps the process awake while it lives. Every process that serves or calls holds one, for as long as
// it does (ServerHost and MakeChannel do it for their owners). Thread-safe.
//
// Get: the process's one guard, started by the first to ask. It runs to the end of the process, on
// purpose: gRPC drops its callback queue with the last server and channel, and 1.51 now and then aborts
// while it does (grpc_cq_internal_unref, "prior > 0"); the guard's stream keeps that queue in use.
class IdleGuard {
 public:
  static std::shared_ptr<IdleGuard> Get();
  ~IdleGuard();
  IdleGuard(const IdleGuard&) = delete;
  IdleGuard& operator=(const IdleGuard&) = delete;

 private:
  IdleGuard();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::rpc
