#include "common/messages/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace tandem::messages::handshake_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

internal::v1::Hello MakeHello() {
  internal::v1::Hello hello;
  hello.set_protocol_revision(kProtocolRevision);
  hello.set_client_id("orchestrator-1");
  hello.set_tokenizer_id("tok-a");
  hello.set_model_id("model-a");
  return hello;
}

v1::Welcome MakeWelcome() {
  v1::Welcome welcome;
  welcome.set_protocol_revision(kProtocolRevision);
  welcome.set_tokenizer_id("tok-a");
  welcome.set_model_id("model-a");
  welcome.add_features("trees");
  return welcome;
}

void ExpectRefused(const absl::Status& status, const std::string& one, const std::string& other) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(one), HasSubstr(other)));
}

TEST(CheckHelloTest, TakesAnEqualPeerAndOneThatDoesNotCare) {
  EXPECT_TRUE(CheckHello(MakeHello(), MakeWelcome()).ok());
  internal::v1::Hello hello = MakeHello();
  hello.clear_tokenizer_id();
  hello.clear_model_id();
  hello.add_features("trees");
  EXPECT_TRUE(CheckHello(hello, MakeWelcome()).ok());
}

TEST(CheckHelloTest, NamesBothValues) {
  internal::v1::Hello hello = MakeHello();
  hello.set_protocol_revision(7);
  ExpectRefused(CheckHello(hello, MakeWelcome()), "7", absl::StrCat(kProtocolRevision));
  hello = MakeHello();
  hello.set_tokenizer_id("tok-b");
  ExpectRefused(CheckHello(hello, MakeWelcome()), "tok-b", "tok-a");
  hello = MakeHello();
  hello.set_model_id("model-b");
  ExpectRefused(CheckHello(hello, MakeWelcome()), "model-b", "model-a");
  hello = MakeHello();
  hello.add_features("outcomes");
  ExpectRefused(CheckHello(hello, MakeWelcome()), "outcomes", "trees");
}

TEST(CheckHelloTest, ClientIdHasOneTo128Bytes) {
  internal::v1::Hello hello = MakeHello();
  for (const size_t bytes : {size_t{0}, size_t{129}}) {
    hello.set_client_id(std::string(bytes, 'c'));
    EXPECT_EQ(CheckHello(hello, MakeWelcome()).code(), absl::StatusCode::kInvalidArgument);
  }
  hello.set_client_id(std::string(128, 'c'));
  EXPECT_TRUE(CheckHello(hello, MakeWelcome()).ok());
}

TEST(CheckWelcomeTest, NamesBothValues) {
  EXPECT_TRUE(CheckWelcome(MakeWelcome(), {"tok-a", "model-a", {"trees"}}).ok());
  EXPECT_TRUE(CheckWelcome(MakeWelcome(), {}).ok());
  ExpectRefused(CheckWelcome(MakeWelcome(), {"tok-b", "", {}}), "tok-b", "tok-a");
  ExpectRefused(CheckWelcome(MakeWelcome(), {"", "model-b", {}}), "model-b", "model-a");
  ExpectRefused(CheckWelcome(MakeWelcome(), {"", "", {"outcomes"}}), "outcomes", "trees");
  v1::Welcome newer = MakeWelcome();
  newer.set_protocol_revision(kProtocolRevision + 1);
  ExpectRefused(CheckWelcome(newer, {}), absl::StrCat(kProtocolRevision),
                absl::StrCat(kProtocolRevision + 1));
}

std::optional<uint32_t> Compare(const std::vector<uint32_t>& mine,
                                const std::vector<uint32_t>& theirs, int* asked = nullptr) {
  TokenHashSearch search(mine);
  while (const auto range = search.Next()) {
    EXPECT_LE(range->count, kMaxTokenHashes);
    if (asked != nullptr) ++*asked;
    const size_t begin = std::min<size_t>(range->from, theirs.size());
    search.Compare(absl::MakeConstSpan(theirs).subspan(begin, range->count));
  }
  return search.first_difference();
}

TEST(TokenHashSearchTest, FindsTheLowestId) {
  EXPECT_EQ(Compare({1, 2, 3}, {1, 2, 3}), std::nullopt);
  EXPECT_EQ(Compare({1, 2, 3}, {1, 9, 8}), 1u);
  EXPECT_EQ(Compare({1, 2, 3}, {1, 2}), 2u);
  EXPECT_EQ(Compare({1, 2}, {1, 2, 3}), 2u);
  EXPECT_EQ(Compare({}, {}), std::nullopt);
  EXPECT_EQ(Compare({}, {5}), 0u);
}

TEST(TokenHashSearchTest, AsksInRanges) {
  std::vector<uint32_t> mine(2 * kMaxTokenHashes, 7);
  std::vector<uint32_t> theirs = mine;
  int asked = 0;
  EXPECT_EQ(Compare(mine, theirs, &asked), std::nullopt);
  EXPECT_EQ(asked, 3);
  theirs[kMaxTokenHashes + 5] = 8;
  EXPECT_EQ(Compare(mine, theirs), kMaxTokenHashes + 5);
}

TEST(IdsTest, AUniqueClientIdSaysWhoseItIsAndFits) {
  EXPECT_EQ(UniqueClientId("front", 17), "front-17");
  EXPECT_NE(UniqueClientId("front", 17), UniqueClientId("front", 18));
  const std::string longest(kMaxClientIdBytes, 'c');
  EXPECT_EQ(UniqueClientId(longest, UINT64_MAX).size(), kMaxClientIdBytes);
  EXPECT_TRUE(IsOvertaken(Overtaken("newer")));
  EXPECT_FALSE(IsOvertaken(absl::UnavailableError("cut")));
  EXPECT_FALSE(IsOvertaken(absl::OkStatus()));
}

TEST(IdsTest, IncarnationsRiseAndInstancesDiffer) {
  const uint64_t first = NextIncarnation();
  EXPECT_GT(NextIncarnation(), first);
  EXPECT_EQ(NewInstanceId().size(), 16u);
  EXPECT_NE(NewInstanceId(), NewInstanceId());
}

}  // namespace
}  // namespace tandem::messages::handshake_test
