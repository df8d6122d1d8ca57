#include "orchestrator/peers/peer_check.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/messages/handshake.h"

namespace tandem::orchestrator {
namespace {

// Asks the peer for the hashes of its tokens, a range at a time, until one differs. Its callbacks
// keep it alive.
class TokenComparison : public std::enable_shared_from_this<TokenComparison> {
 public:
  TokenComparison(absl::Status mismatch, std::shared_ptr<const TokenizerIdentity> ours,
                  DescribePeer describe, std::function<void(absl::Status)> done)
      : mismatch_(std::move(mismatch)),
        ours_(std::move(ours)),
        describe_(std::move(describe)),
        done_(std::move(done)),
        search_(ours_->token_hashes) {}

  void Ask() {
    const auto range = search_.Next();
    if (!range.has_value()) return Found(search_.first_difference());
    v1::DescribeRequest request;
    request.set_token_hashes_from(range->from);
    request.set_token_hashes_count(range->count);
    describe_(request, [self = shared_from_this()](absl::StatusOr<v1::DescribeReply> reply) {
      if (!reply.ok()) return self->done_(self->mismatch_);
      self->search_.Compare({reply->token_hashes().data(), size_t(reply->token_hashes_size())});
      self->Ask();
    });
  }

 private:
  void Found(std::optional<uint32_t> token) {
    absl::Status named = messages::WithFirstDifferentToken(mismatch_, token);
    if (!token.has_value()) return done_(std::move(named));
    done_({named.code(),
           absl::StrCat(named.message(), ", here ",
                        *token < ours_->token_hashes.size() ? ours_->token_text(*token)
                                                            : std::string("no token"))});
  }

  const absl::Status mismatch_;
  const std::shared_ptr<const TokenizerIdentity> ours_;
  const DescribePeer describe_;
  const std::function<void(absl::Status)> done_;
  messages::TokenHashSearch search_;
};

}  // namespace

CheckWelcome MakePeerCheck(std::string peer, std::shared_ptr<const TokenizerIdentity> ours,
                           DescribePeer describe) {
  return [peer = std::move(peer), ours = std::move(ours), describe = std::move(describe)](
             const v1::Welcome& welcome, std::function<void(absl::Status)> done) {
    messages::WelcomeExpectations expected;
    expected.tokenizer_id = ours->content_id;
    absl::Status fits = messages::CheckWelcome(welcome, expected);
    if (fits.ok()) return done(std::move(fits));
    fits = {fits.code(), absl::StrCat(peer, " does not fit: ", fits.message())};
    // Another revision's hashes may mean something else.
    if (welcome.protocol_revision() != messages::kProtocolRevision) return done(std::move(fits));
    std::make_shared<TokenComparison>(std::move(fits), ours, describe, std::move(done))->Ask();
  };
}

}  // namespace tandem::orchestrator
