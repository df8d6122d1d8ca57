#include "client/common/accepted_text.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;

v1::Delta Drafted() {
  v1::Delta delta;
  delta.set_text("aé b");
  const std::pair<uint32_t, bool> runs[] = {{1, false}, {2, true}, {2, false}};
  for (const auto& [bytes, accepted] : runs) {
    v1::TextRun& run = *delta.add_text_runs();
    run.set_bytes(bytes);
    run.set_accepted(accepted);
  }
  return delta;
}

TEST(AcceptedTextTest, AcceptedTokensHaveAColor) {
  TerminalStyle style;
  EXPECT_EQ(AcceptedText(Drafted(), style), "aé b");
  EXPECT_EQ(AcceptedLegend(style), "");
  style.color = true;
  EXPECT_EQ(AcceptedText(Drafted(), style), "a\x1b[32mé\x1b[0m b");
  EXPECT_THAT(AcceptedLegend(style), HasSubstr("\x1b[32mgreen\x1b[0m: draft tokens"));
  v1::Delta unknown = Drafted();
  unknown.clear_text_runs();
  EXPECT_EQ(AcceptedText(unknown, style), "aé b");
}

}  // namespace
}  // namespace tandem::client
