// An Admission on a fake clock, and what it told whom.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/generate/admission.h"
#include "tests/support/fake_clock.h"

namespace tandem::orchestrator {

inline constexpr concurrency::Instant kNever = concurrency::Instant::InfiniteFuture();

class AdmissionTest : public ::testing::Test {
 protected:
  struct Told {
    absl::Status status;
    absl::Duration waited;
    concurrency::Instant at;
    int times = 0;
  };

  void Make(uint32_t max_active, uint32_t max_waiting,
            absl::Duration patience = absl::Seconds(60)) {
    admission = std::make_shared<Admission>(AdmissionOptions{max_active, max_waiting, patience},
                                            timers, clock);
  }
  // Ids rise by themselves. `for_at_most`: until the request's deadline.
  uint64_t Ask(uint32_t priority = 0, absl::Duration for_at_most = absl::InfiniteDuration(),
               const std::string& client = "") {
    const uint64_t id = ++last_id;
    admission->Ask(id, priority, client, clock.Now() + for_at_most,
                   [this, id](absl::Status status, absl::Duration waited) {
                     Told& it = told[id];
                     it.status = std::move(status);
                     it.waited = waited;
                     it.at = clock.Now();
                     ++it.times;
                     if (it.status.ok()) admitted.push_back(id);
                   });
    return id;
  }
  absl::StatusCode CodeOf(uint64_t id) { return told.at(id).status.code(); }
  std::string MessageOf(uint64_t id) { return std::string(told.at(id).status.message()); }

  testing::FakeClock clock;
  testing::FakeTimers timers{clock};
  std::shared_ptr<Admission> admission;
  uint64_t last_id = 0;
  std::map<uint64_t, Told> told;
  std::vector<uint64_t> admitted;  // in order
};

}  // namespace tandem::orchestrator
