#include "client/pull/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem::client {
namespace {

class ProgressTest : public ::testing::Test {
 protected:
  Progress Make(bool is_terminal) {
    return Progress(
        "a/b", {is_terminal, [this] { return now_; },
                [this](absl::string_view text) { written_.append(text.data(), text.size()); }});
  }
  std::string Take() { return std::exchange(written_, ""); }

  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  std::string written_;
};

TEST_F(ProgressTest, LinesComeEveryFiveSecondsWhereTheyStay) {
  Progress progress = Make(/*is_terminal=*/false);
  progress.OnPlan(3, 2'000'000'000, 500'000'000);
  EXPECT_EQ(Take(), "a/b: 3 files, 2.00 GB, 500 MB of it here already\n");
  progress.OnFile("model.safetensors", 1'999'000'000);
  for (int i = 0; i < 49; ++i) {
    now_ += absl::Milliseconds(100);
    progress.OnBytes(10'000'000);
  }
  EXPECT_EQ(Take(), "");
  now_ += absl::Milliseconds(100);
  progress.OnBytes(10'000'000);
  EXPECT_EQ(Take(), "a/b: 1.00 GB of 2.00 GB (50 %), 100 MB/s, 10s left, model.safetensors\n");
  progress.Finish();
  EXPECT_EQ(Take(), "");
}

TEST_F(ProgressTest, ATerminalHasOneLineThatChanges) {
  Progress progress = Make(/*is_terminal=*/true);
  progress.OnPlan(1, 1000, 0);
  EXPECT_EQ(Take(), "a/b: 1 file, 1 kB\n");
  progress.OnFile("model.safetensors", 1000);
  EXPECT_EQ(Take(), "\ra/b: 0 B of 1 kB (0 %), model.safetensors");
  now_ += absl::Milliseconds(50);
  progress.OnBytes(100);
  EXPECT_EQ(Take(), "");
  now_ += absl::Milliseconds(50);
  progress.OnBytes(100);
  EXPECT_EQ(Take(), "\ra/b: 200 B of 1 kB (20 %), model.safetensors");
  progress.OnFile("x", 1);  // a shorter line covers the longer one
  EXPECT_EQ(Take(), "\ra/b: 200 B of 1 kB (20 %), x" + std::string(16, ' '));
  progress.OnNote("again");
  EXPECT_EQ(Take(), "\na/b: again\n");
}

TEST_F(ProgressTest, ADownloadThatBeginsAnewHasNoPace) {
  Progress progress = Make(/*is_terminal=*/false);
  progress.OnPlan(1, 1000, 500);
  Take();
  now_ += absl::Seconds(6);
  progress.OnBytes(-500);
  EXPECT_EQ(Take(), "a/b: 0 B of 1 kB (0 %), \n");
}

}  // namespace
}  // namespace tandem::client
