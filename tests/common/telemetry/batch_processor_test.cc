// When ended spans are exported, and which are dropped.
#include "common/telemetry/batch_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/concurrency/mutex.h"
#include "opentelemetry/sdk/trace/span_data.h"
#include "tests/support/wait.h"

namespace tandem::telemetry {
namespace {

namespace sdk = opentelemetry::sdk;
using std::chrono::seconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Le;

// What an exporter got, and whether it may go on.
struct Exports {
  concurrency::Mutex mutex;
  concurrency::CondVar changed;
  std::vector<std::string> names TANDEM_GUARDED_BY(mutex);
  std::vector<size_t> sizes TANDEM_GUARDED_BY(mutex);
  bool held TANDEM_GUARDED_BY(mutex) = false;
  bool fails TANDEM_GUARDED_BY(mutex) = false;

  void Hold(bool hold) {
    concurrency::MutexLock lock(mutex);
    held = hold;
    changed.NotifyAll();
  }
  std::vector<std::string> Names() {
    concurrency::MutexLock lock(mutex);
    return names;
  }
  std::vector<size_t> Sizes() {
    concurrency::MutexLock lock(mutex);
    return sizes;
  }
};

class Exporter final : public sdk::trace::SpanExporter {
 public:
  explicit Exporter(Exports& exports) : exports_(exports) {}
  std::unique_ptr<sdk::trace::Recordable> MakeRecordable() noexcept override {
    return std::make_unique<sdk::trace::SpanData>();
  }
  sdk::common::ExportResult Export(
      const opentelemetry::nostd::span<std::unique_ptr<sdk::trace::Recordable>>& spans) noexcept
      override {
    concurrency::MutexLock lock(exports_.mutex);
    exports_.sizes.push_back(spans.size());
    while (exports_.held) exports_.changed.Wait(exports_.mutex);
    if (exports_.fails) return sdk::common::ExportResult::kFailure;
    for (const auto& span : spans) {
      const auto name = static_cast<const sdk::trace::SpanData&>(*span).GetName();
      exports_.names.emplace_back(name.data(), name.size());
    }
    return sdk::common::ExportResult::kSuccess;
  }
  bool ForceFlush(std::chrono::microseconds) noexcept override { return true; }
  bool Shutdown(std::chrono::microseconds) noexcept override { return true; }

 private:
  Exports& exports_;
};

class BatchProcessorTest : public ::testing::Test {
 protected:
  std::unique_ptr<BatchProcessor> Make(absl::Duration delay, size_t queue, size_t batch) {
    return std::make_unique<BatchProcessor>(
        std::make_unique<Exporter>(exports_),
        BatchOptions{.delay = delay, .queue_size = queue, .batch_size = batch}, dropped_);
  }
  static void End(BatchProcessor& processor, const std::string& name) {
    auto span = processor.MakeRecordable();
    span->SetName(name);
    processor.OnEnd(std::move(span));
  }

  Exports exports_;
  const std::shared_ptr<std::atomic<uint64_t>> dropped_ =
      std::make_shared<std::atomic<uint64_t>>(0);
};

TEST_F(BatchProcessorTest, AFlushExportsAllThatEnded) {
  const auto processor = Make(absl::Hours(1), 100, 2);
  // Many times, since what it guards against is a wake-up that is slept through.
  for (int i = 0; i < 2000; ++i) {
    End(*processor, "a");
    ASSERT_TRUE(processor->ForceFlush(seconds(60)));
    ASSERT_EQ(exports_.Names().size(), static_cast<size_t>(i + 1));
  }
}

TEST_F(BatchProcessorTest, TheEndExportsAllThatEnded) {
  for (int i = 0; i < 500; ++i) {
    auto processor = Make(absl::Hours(1), 100, 2);
    for (const char* name : {"a", "b", "c"}) End(*processor, name);
    ASSERT_TRUE(processor->Shutdown(seconds(60)));
    ASSERT_EQ(exports_.Names().size(), static_cast<size_t>(3 * (i + 1)));
    End(*processor, "later");
    ASSERT_TRUE(processor->Shutdown(seconds(60)));  // again: nothing
  }
  EXPECT_THAT(exports_.Sizes(), Each(Le(2)));
  EXPECT_EQ(*dropped_, 500);
}

TEST_F(BatchProcessorTest, AFullBatchDoesNotWait) {
  const auto processor = Make(absl::Hours(1), 100, 2);
  End(*processor, "a");
  End(*processor, "b");
  EXPECT_TRUE(testing::WaitUntil([&] { return exports_.Names().size() == 2; }));
  EXPECT_THAT(exports_.Names(), ElementsAre("a", "b"));
}

TEST_F(BatchProcessorTest, TimeExportsLess) {
  const auto processor = Make(absl::Milliseconds(5), 100, 50);
  End(*processor, "a");
  EXPECT_TRUE(testing::WaitUntil([&] { return exports_.Names().size() == 1; }));
}

TEST_F(BatchProcessorTest, WhatThereIsNoPlaceForIsDropped) {
  exports_.Hold(true);
  const auto processor = Make(absl::Hours(1), 3, 1);
  End(*processor, "held");
  ASSERT_TRUE(testing::WaitUntil([&] { return exports_.Sizes().size() == 1; }));
  for (const char* name : {"a", "b", "c", "d", "e"}) End(*processor, name);
  EXPECT_EQ(*dropped_, 2);
  EXPECT_FALSE(processor->ForceFlush(std::chrono::milliseconds(1)));
  EXPECT_FALSE(processor->Shutdown(std::chrono::milliseconds(1)));
  exports_.Hold(false);
  EXPECT_TRUE(processor->Shutdown(seconds(60)));
  EXPECT_THAT(exports_.Names(), ElementsAre("held", "a", "b", "c"));
}

TEST_F(BatchProcessorTest, TheEndTriesNoMoreAfterAFailure) {
  exports_.Hold(true);
  const auto processor = Make(absl::Hours(1), 10, 1);
  for (const char* name : {"a", "b", "c"}) End(*processor, name);
  EXPECT_FALSE(processor->Shutdown(std::chrono::milliseconds(1)));
  {
    concurrency::MutexLock lock(exports_.mutex);
    exports_.fails = true;
  }
  exports_.Hold(false);
  EXPECT_TRUE(processor->Shutdown(seconds(60)));
  EXPECT_THAT(exports_.Names(), IsEmpty());
  EXPECT_THAT(exports_.Sizes(), ElementsAre(1));
}

TEST_F(BatchProcessorTest, ManyThreads) {
  const auto processor = Make(absl::Milliseconds(1), 100'000, 64);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        End(*processor, "a");
        if (i % 100 == 0) {
          EXPECT_TRUE(processor->ForceFlush(seconds(60)));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(processor->Shutdown(seconds(60)));
  EXPECT_EQ(exports_.Names().size(), 4000);
  EXPECT_EQ(*dropped_, 0);
}

}  // namespace
}  // namespace tandem::telemetry
