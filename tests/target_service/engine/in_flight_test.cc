// Two passes in flight, with the device on its own thread and streams that come, send and go on
// others.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>

#include "common/base/log.h"
#include "tests/support/wait.h"
#include "tests/target_service/engine/table_engine.h"
#include "tests/target_service/harness.h"

namespace tandem::target_service {
namespace {

TEST(PassesInFlight, EveryStepIsAnsweredOnce) {
  const base::ScopedLogSink quiet([](const base::LogEntry&) {});
  Harness target(Options(), std::make_unique<TableEngine>(
                                TableEngine::Table{{0, -1, -2}, {-2, 0, -1}, {-1, -2, 0}}));
  std::thread device([&target] { target.device->Run(); });
  internal::v1::SequenceOptions options = SampledOptions();
  options.set_rule(v1::RULE_COUPLED);
  std::vector<std::thread> clients;
  for (int client = 0; client < 3; ++client) {
    clients.emplace_back([&target, &options, client] {
      std::mt19937 random(static_cast<uint32_t>(client));
      for (uint64_t incarnation = 1; incarnation <= 20; ++incarnation) {
        auto stream = target.Connect(std::string(1, static_cast<char>('a' + client)), incarnation);
        size_t sent = 0;
        for (uint64_t round = 1; round <= 8; ++round) {
          const std::vector<uint32_t> prompt(1 + random() % 100, 1);
          internal::v1::Step step = FirstStep(random() % 4, prompt, {{1, 2}}, options);
          step.set_round(round);
          Harness::Send(stream, {step}, {random() % 8});
          ++sent;
        }
        if (random() % 2 == 0) {
          size_t answered = 0;
          EXPECT_TRUE(testing::WaitUntil([&] {
            answered += stream.sink->Take().size();
            return answered >= sent;
          }));
          EXPECT_EQ(answered, sent);
          stream.session->OnHalfClose();
        }
        stream.session->OnDone(random() % 2 == 0 ? absl::OkStatus() : absl::CancelledError("cut"));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  target.device->Stop();
  device.join();
  target.WaitForLingering();
  EXPECT_EQ(target.device->active_sequences(), 0u);
  EXPECT_EQ(target.device->load().queued_rows(), 0u);
}

}  // namespace
}  // namespace tandem::target_service
