// What goes wrong between the services during a soak.
#pragma once

#include <cstdint>
#include <random>
#include <thread>

#include "absl/time/time.h"
#include "common/concurrency/notification.h"
#include "tests/netproxy/netproxy.h"
#include "tests/soak/restartable_draft.h"

namespace tandem::testing {

// Cuts, silences and mends both links, and replaces the draft, a second or two apart.
class BadNetwork {
 public:
  BadNetwork(netproxy::NetProxy& target, netproxy::NetProxy& draft, RestartableDraft& service,
             uint64_t seed)
      : target_(target), draft_(draft), service_(service), random_(seed), thread_([this] {
          Run();
        }) {}
  // Whole again afterwards.
  ~BadNetwork() {
    over_.Notify();
    thread_.join();
    target_.Resume();
    draft_.Resume();
  }

 private:
  void Run() {
    while (!Pause(500, 2500)) {
      netproxy::NetProxy& link = random_() % 2 == 0 ? target_ : draft_;
      switch (random_() % 5) {
        case 0:
        case 1:
          link.Reset();
          break;
        case 2:
          service_.Restart();
          break;
        case 3:
          link.HalfOpen();
          Pause(100, 1500);
          link.Resume();
          link.Reset();
          break;
        default:
          link.Stall(netproxy::Direction::kBoth);
          Pause(50, 1500);
          link.Resume();
      }
    }
  }

  bool Pause(int min, int max) {  // true: it is over
    const int milliseconds = min + static_cast<int>(random_() % (max - min));
    return over_.WaitFor(absl::Milliseconds(milliseconds));
  }

  netproxy::NetProxy& target_;
  netproxy::NetProxy& draft_;
  RestartableDraft& service_;
  std::mt19937_64 random_;
  concurrency::Notification over_;
  std::thread thread_;
};

}  // namespace tandem::testing
