// Sessions of a TargetPool without a loop: the test says what they do.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/verify/target_pace.h"
#include "orchestrator/verify/target_pool.h"
#include "tests/orchestrator/harness/pool_harness.h"

namespace tandem::orchestrator {

// A session whose owner does nothing by itself.
struct Guest {
  // The pool's sessions keep it; the guest keeps its session.
  struct Events final : VerifyEvents {
    void OnVerifyReady() override { ++nudges; }
    void OnSlotWanted() override { ++wanted; }
    void OnVerifyLost(base::Incarnation incarnation, std::string) override {
      lost.push_back(incarnation);
    }
    void OnVerdict(base::Incarnation, VerifyReply) override {}
    int nudges = 0;
    int wanted = 0;
    std::vector<base::Incarnation> lost;
  };

  // "a", "b", …: the target; else why there is none.
  std::string Seek() {
    result = session->Seek();
    switch (result.kind) {
      case SeekResult::Kind::kTarget:
        return result.target.name;
      case SeekResult::Kind::kNoTarget:
        return "no target";
      case SeekResult::Kind::kNoSlot:
        return "no slot";
      case SeekResult::Kind::kUnfit:
        return "unfit";
    }
    return "";
  }
  // Opens a sequence there: a prompt of so many tokens.
  void Send(uint32_t tokens) {
    VerifyStep step;
    step.round = 1;
    step.setup.emplace();
    step.prefix.tokens = std::vector<uint32_t>(tokens, 1);
    result.target.pace->Submitted(tokens);
    session->Submit(result.target.incarnation, std::move(step));
  }

  std::unique_ptr<VerifySession> session;
  SeekResult result;
  const std::shared_ptr<Events> events = std::make_shared<Events>();
  int& nudges = events->nudges;
  std::vector<base::Incarnation>& lost = events->lost;
};

inline std::shared_ptr<Guest> Come(PoolHarness& harness, SessionNeeds needs = {}) {
  auto guest = std::make_shared<Guest>();
  guest->session = harness.pool().NewSession(guest->events, std::move(needs));
  return guest;
}

// What was cut is opened again, where it can be.
inline void Reconnect(PoolHarness& harness) {
  harness.DeliverAll();
  harness.timers.Advance(absl::Seconds(3));
  harness.DeliverAll();
}

inline void TellLoad(PoolHarness& harness, size_t target, uint32_t queued_rows) {
  harness.target(target).queued_rows = queued_rows;
  harness.target(target).Report();
}

}  // namespace tandem::orchestrator
