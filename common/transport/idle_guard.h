// Keeps gRPC 1.51's callback threads from stalling after a silence.
//
// Where gRPC has no background poller (Linux with epoll, as Debian builds it), its callback API
// runs on a few threads of its own (half the cores, 2 to 16) that share one completion queue a
// process. Each waits for an event for at most 1 s. If none came, it sleeps for 100 ms, during
// which it hears nothing, and waits again (CallbackAlternativeCQ in
// src/cpp/common/completion_queue_cc.cc). All threads get their last event at the same time. So
// from 1.0 to 1.1 s after it no thread listens: a message that is sent or arrives then waits for
// the rest of that tenth. A lone request, or a target whose step takes a second, would meet this at
// every message. Measured: 50 to 80 ms after 1.02 to 1.05 s, instead of 0.2 ms.
//
// The cure: one stream inside the process that carries a byte every 300 ms. The thread that got its
// last event listens for the next second. So one thread always listens, for all streams of the
// process. That costs three wake-ups a second. A reaction that blocks that thread would bring the
// stall back; ours do not. The queue belongs to a process, so client and server each need a guard.
// tests/common/transport/idle_guard_test.cc measures the first message after idling, with and
// without.
#pragma once

#include <memory>

namespace tandem::transport {

// Keeps the process awake. Every process that serves or calls holds one (ServerHost and MakeChannel
// do it for their owners). Thread-safe.
//
// Get: the process's one guard. The first call starts it. It is never destroyed, on purpose: gRPC
// drops its callback queue with the last server and channel, and 1.51 sometimes aborts while it
// does (grpc_cq_internal_unref, "prior > 0"). The guard's stream keeps that queue in use. Its
// thread ends at exit(), before the statics that are older than the guard.
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

}  // namespace tandem::transport
