#include "orchestrator/peers/peer_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem::orchestrator {
namespace {

constexpr uint32_t kHashesAtOnce = 131072;  // DescribeRequest.token_hashes_count

// Looks for the first token that differs, a range at a time. Keeps itself alive through its
// callbacks.
class TokenComparison : public std::enable_shared_from_this<TokenComparison> {
 public:
  TokenComparison(std::string mismatch, std::shared_ptr<const TokenizerIdentity> ours,
                  DescribePeer describe, std::function<void(absl::Status)> done)
      : mismatch_(std::move(mismatch)),
        ours_(std::move(ours)),
        describe_(std::move(describe)),
        done_(std::move(done)) {}

  void Ask(uint32_t from) {
    v1::DescribeRequest request;
    request.set_token_hashes_from(from);
    request.set_token_hashes_count(kHashesAtOnce);
    describe_(request, [self = shared_from_this(), from](absl::StatusOr<v1::DescribeReply> reply) {
      if (!reply.ok()) return self->Done("");
      self->Compare(from, *reply);
    });
  }

 private:
  void Compare(uint32_t from, const v1::DescribeReply& reply) {
    const uint32_t theirs = static_cast<uint32_t>(reply.token_hashes_size());
    const uint32_t left = ours_->vocabulary_size - std::min(from, ours_->vocabulary_size);
    const uint32_t count = std::max(theirs, std::min(left, kHashesAtOnce));
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t id = from + i;
      const uint32_t our_hash = id < ours_->vocabulary_size ? ours_->token_hash(id) : 0;
      const uint32_t their_hash = i < theirs ? reply.token_hashes(static_cast<int>(i)) : 0;
      if (our_hash == their_hash) continue;
      return Done(absl::StrCat("; the first token that differs is ", id, ", here ",
                               our_hash == 0 ? "no token" : ours_->token_text(id), ", there ",
                               their_hash == 0 ? "no token" : "another one"));
    }
    if (count < kHashesAtOnce) return Done("");
    Ask(from + kHashesAtOnce);
  }

  void Done(const std::string& difference) {
    done_(absl::FailedPreconditionError(absl::StrCat(mismatch_, difference)));
  }

  const std::string mismatch_;
  const std::shared_ptr<const TokenizerIdentity> ours_;
  const DescribePeer describe_;
  const std::function<void(absl::Status)> done_;
};

}  // namespace

CheckWelcome MakePeerCheck(std::string peer, std::shared_ptr<const TokenizerIdentity> ours,
                           DescribePeer describe) {
  return [peer = std::move(peer), ours = std::move(ours), describe = std::move(describe)](
             const v1::Welcome& welcome, std::function<void(absl::Status)> done) {
    if (welcome.protocol_revision() != kProtocolRevision) {
      return done(absl::FailedPreconditionError(
          absl::StrCat(peer, " speaks protocol revision ", welcome.protocol_revision(),
                       ", the orchestrator ", kProtocolRevision)));
    }
    if (welcome.tokenizer_id() == ours->content_id) return done(absl::OkStatus());
    std::string mismatch =
        absl::StrCat("the tokenizer of ", peer, " is not the orchestrator's: ",
                     welcome.tokenizer_id().empty() ? "none" : welcome.tokenizer_id(), " there, ",
                     ours->content_id, " here");
    std::make_shared<TokenComparison>(std::move(mismatch), ours, describe, std::move(done))->Ask(0);
  };
}

}  // namespace tandem::orchestrator
