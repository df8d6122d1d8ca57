#include "orchestrator/peers/peer_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/messages/handshake.h"

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A peer with tokens of its own.
struct Peer {
  std::vector<uint32_t> hashes;
  absl::Status fails;
  int questions = 0;

  DescribePeer describe() {
    return [this](const v1::DescribeRequest& request,
                  std::function<void(absl::StatusOr<v1::DescribeReply>)> answer) {
      ++questions;
      if (!fails.ok()) return answer(fails);
      EXPECT_LE(request.token_hashes_count(), messages::kMaxTokenHashes);
      v1::DescribeReply reply;
      const size_t end = std::min<size_t>(
          hashes.size(), size_t{request.token_hashes_from()} + request.token_hashes_count());
      for (size_t id = request.token_hashes_from(); id < end; ++id) {
        reply.add_token_hashes(hashes[id]);
      }
      answer(reply);
    };
  }
};

std::shared_ptr<TokenizerIdentity> Ours(size_t tokens) {
  auto ours = std::make_shared<TokenizerIdentity>();
  ours->content_id = "ours-id";
  for (uint32_t id = 0; id < tokens; ++id) ours->token_hashes.push_back(1000 + id);
  ours->token_text = [](uint32_t id) { return absl::StrCat("<", id, ">"); };
  return ours;
}

absl::Status Check(Peer& peer, std::shared_ptr<TokenizerIdentity> ours,
                   const std::string& tokenizer_id,
                   uint32_t revision = messages::kProtocolRevision) {
  v1::Welcome welcome;
  welcome.set_protocol_revision(revision);
  welcome.set_tokenizer_id(tokenizer_id);
  std::optional<absl::Status> result;
  MakePeerCheck("target t:1", std::move(ours), peer.describe())(welcome, [&](absl::Status status) {
    EXPECT_FALSE(result.has_value()) << "called twice";
    result = std::move(status);
  });
  EXPECT_TRUE(result.has_value());
  return result.value_or(absl::UnknownError("no answer"));
}

TEST(PeerCheck, TheSameTokenizerIsAskedNothing) {
  Peer peer;
  EXPECT_TRUE(Check(peer, Ours(5), "ours-id").ok());
  EXPECT_EQ(peer.questions, 0);
}

TEST(PeerCheck, AMismatchNamesPeerBothIdsAndTheFirstToken) {
  Peer peer;
  peer.hashes = {1000, 1001, 7, 8, 1004};
  const absl::Status status = Check(peer, Ours(5), "theirs-id");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"target t:1", "ours-id", "theirs-id", "id 2", "<2>"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(PeerCheck, AVocabularyThatIsLongerOnOneSide) {
  Peer peer;
  peer.hashes = {1000, 1001};
  EXPECT_THAT(std::string(Check(peer, Ours(3), "x").message()), HasSubstr("id 2, here <2>"));
  peer.hashes = {1000, 1001, 1002, 1003};
  EXPECT_THAT(std::string(Check(peer, Ours(3), "x").message()), HasSubstr("id 3, here no token"));
}

TEST(PeerCheck, ADifferenceBehindTheFirstRange) {
  const auto ours = Ours(messages::kMaxTokenHashes + 10);
  Peer peer;
  peer.hashes = ours->token_hashes;
  peer.hashes[messages::kMaxTokenHashes + 4] = 3;
  EXPECT_THAT(std::string(Check(peer, ours, "x").message()),
              HasSubstr(absl::StrCat("id ", messages::kMaxTokenHashes + 4, ",")));
  EXPECT_EQ(peer.questions, 2);
}

TEST(PeerCheck, APeerThatDoesNotAnswerIsRefusedAllTheSame) {
  Peer peer;
  peer.fails = absl::UnavailableError("gone");
  const absl::Status status = Check(peer, Ours(3), "theirs-id");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("theirs-id"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("first token")));
}

TEST(PeerCheck, AnotherRevisionIsNotAskedForTokens) {
  Peer peer;
  const absl::Status status = Check(peer, Ours(3), "ours-id", messages::kProtocolRevision + 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("revision"));
  EXPECT_EQ(peer.questions, 0);
}

}  // namespace
}  // namespace tandem::orchestrator
