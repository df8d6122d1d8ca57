// A request whose rounds a script decides, watched by the metrics.
#pragma once

#include <memory>
#include <utility>

#include "common/concurrency/instant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/metrics/orchestrator_metrics.h"
#include "prometheus/text_serializer.h"
#include "tests/orchestrator/harness/loop_harness.h"
#include "tests/orchestrator/metrics/identities.h"

namespace tandem::orchestrator {

// Whose identities hold.
inline testing::Scrape ScrapeOf(const OrchestratorMetrics& metrics) {
  auto scrape = testing::ParseMetrics(prometheus::TextSerializer().Serialize(metrics.Collect()));
  EXPECT_TRUE(scrape.ok()) << scrape.status();
  EXPECT_THAT(BrokenIdentities(*scrape), ::testing::IsEmpty());
  return *std::move(scrape);
}

inline const concurrency::Instant kArrived = testing::FakeClock().Now();

// One request of one text, as GenerateCall would watch it.
class Watched {
 public:
  Watched(OrchestratorMetrics& metrics, GenerationRequest wanted, HarnessOptions options = {})
      : request(metrics.Watcher()({kArrived, ""})) {
    request->OnAccepted(kArrived, wanted);
    request->OnAdmitted(kArrived + absl::Milliseconds(5), v1::Started());
    options.watch = [this](const testing::FakeClock&) { return request->WatchSample(0); };
    harness = std::make_unique<LoopHarness>(std::move(wanted), options);
  }
  const Ending& Run() {
    harness->Start();
    harness->Run();
    End();
    return *harness->ending;
  }
  void End() {
    const Ending& ending = *harness->ending;
    request->OnEnded(
        {kArrived, harness->clock.Now(), ending.status, "", &harness->request, {&ending, 1}});
  }

  std::unique_ptr<RequestObserver> request;
  std::unique_ptr<LoopHarness> harness;
};

}  // namespace tandem::orchestrator
