#include "orchestrator/request/committed_tokens.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {
namespace {

using Text = std::vector<uint32_t>;

TEST(CommittedTokens, AnySliceAndAnyHashIsThatOfTheWholeText) {
  const Text prompt = {5, 6, 7, 8};
  CommittedTokens committed(prompt);
  Text text = prompt;
  for (uint32_t token : {40, 41, 42}) {
    committed.Append(token);
    text.push_back(token);
  }
  ASSERT_EQ(committed.size(), text.size());
  EXPECT_EQ(committed.hash(), speculation::PrefixHash(text));
  for (uint32_t end = 0; end <= text.size(); ++end) {
    EXPECT_EQ(committed.HashOf(end),
              speculation::PrefixHash(absl::MakeConstSpan(text).subspan(0, end)));
    for (uint32_t begin = 0; begin <= end; ++begin) {
      EXPECT_EQ(committed.Slice(begin, end), Text(text.begin() + begin, text.begin() + end))
          << begin << " to " << end;
    }
  }
}

TEST(CommittedTokens, TheSamplesOfARequestShareItsPrompt) {
  GenerationRequest request;
  request.prompt = {5, 6, 7, 8};
  request.samples = 3;
  const auto shared = std::make_shared<const GenerationRequest>(std::move(request));
  const SampleRequest first(shared);
  for (uint32_t index = 0; index < 3; ++index) {
    CommittedTokens committed(first.Sibling(index).prompt());
    committed.Append(9);
    EXPECT_EQ(committed.Slice(0, 4).data(), shared->prompt.data());
    EXPECT_EQ(committed.Slice(1, 3).data(), shared->prompt.data() + 1);
    EXPECT_EQ(committed.HashOf(4), speculation::PrefixHash(shared->prompt));
  }
}

}  // namespace
}  // namespace tandem::orchestrator
