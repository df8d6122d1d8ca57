#include "common/messages/handshake.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace tandem::messages {
namespace {

absl::Status Differs(absl::string_view what, absl::string_view client, absl::string_view server) {
  auto shown = [](absl::string_view id) { return id.empty() ? absl::string_view("(none)") : id; };
  return absl::FailedPreconditionError(absl::StrCat("the client's ", what, " is ", shown(client),
                                                    ", the server's is ", shown(server)));
}

template <typename Wanted, typename Offered>
absl::Status CheckFeatures(const Wanted& wanted, const Offered& offered) {
  for (const std::string& feature : wanted) {
    if (std::find(offered.begin(), offered.end(), feature) == offered.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the client needs the feature '", feature, "', the server offers ",
                       offered.empty() ? "none" : absl::StrJoin(offered, ", ")));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHello(const internal::v1::Hello& hello, const v1::Welcome& mine) {
  if (hello.protocol_revision() != mine.protocol_revision()) {
    return Differs("protocol revision", absl::StrCat(hello.protocol_revision()),
                   absl::StrCat(mine.protocol_revision()));
  }
  if (hello.client_id().empty() || hello.client_id().size() > kMaxClientIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat("hello.client_id has ", hello.client_id().size(),
                                                   " bytes, allowed are 1 to ", kMaxClientIdBytes));
  }
  if (absl::Status status = CheckFeatures(hello.features(), mine.features()); !status.ok()) {
    return status;
  }
  if (!hello.tokenizer_id().empty() && hello.tokenizer_id() != mine.tokenizer_id()) {
    return Differs("tokenizer_id", hello.tokenizer_id(), mine.tokenizer_id());
  }
  if (!hello.model_id().empty() && hello.model_id() != mine.model_id()) {
    return Differs("model_id", hello.model_id(), mine.model_id());
  }
  return absl::OkStatus();
}

absl::Status Overtaken(const std::string& message) { return absl::AbortedError(message); }

bool IsOvertaken(const absl::Status& status) { return absl::IsAborted(status); }

std::string UniqueClientId(const std::string& client_id, uint64_t incarnation) {
  const std::string suffix = absl::StrCat("-", incarnation);
  return absl::StrCat(client_id.substr(0, kMaxClientIdBytes - suffix.size()), suffix);
}

absl::Status CheckWelcome(const v1::Welcome& welcome, const WelcomeExpectations& expected) {
  if (welcome.protocol_revision() != kProtocolRevision) {
    return Differs("protocol revision", absl::StrCat(kProtocolRevision),
                   absl::StrCat(welcome.protocol_revision()));
  }
  if (absl::Status status = CheckFeatures(expected.features, welcome.features()); !status.ok()) {
    return status;
  }
  if (!expected.tokenizer_id.empty() && expected.tokenizer_id != welcome.tokenizer_id()) {
    return Differs("tokenizer_id", expected.tokenizer_id, welcome.tokenizer_id());
  }
  if (!expected.model_id.empty() && expected.model_id != welcome.model_id()) {
    return Differs("model_id", expected.model_id, welcome.model_id());
  }
  return absl::OkStatus();
}

std::optional<TokenHashSearch::Range> TokenHashSearch::Next() const {
  if (over_) return std::nullopt;
  // One more than there are: a longer vocabulary of the peer is a difference too.
  const uint32_t left = static_cast<uint32_t>(mine_.size()) - from_ + 1;
  return Range{from_, std::min(left, kMaxTokenHashes)};
}

void TokenHashSearch::Compare(absl::Span<const uint32_t> theirs) {
  const std::optional<Range> range = Next();
  if (!range.has_value()) return;
  for (uint32_t i = 0; i < range->count; ++i) {
    const bool here = range->from + i < mine_.size();
    const bool there = i < theirs.size();
    if (here && there && mine_[range->from + i] == theirs[i]) continue;
    if (here || there) difference_ = range->from + i;
    over_ = true;
    return;
  }
  from_ += range->count;
}

absl::Status WithFirstDifferentToken(const absl::Status& mismatch, std::optional<uint32_t> token) {
  return {mismatch.code(),
          token.has_value()
              ? absl::StrCat(mismatch.message(), "; the first token that differs has id ", *token)
              : absl::StrCat(mismatch.message(),
                             "; all tokens are equal, so the tokenizers differ in their rules")};
}

std::string NewInstanceId() {
  std::random_device device;
  return absl::StrCat(absl::Hex(device(), absl::kZeroPad8), absl::Hex(device(), absl::kZeroPad8));
}

uint64_t NextIncarnation() {
  static std::atomic<uint64_t> last{0};
  const uint64_t now =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count());
  uint64_t before = last.load();
  uint64_t next = 0;
  do {
    next = std::max(now, before + 1);
  } while (!last.compare_exchange_weak(before, next));
  return next;
}

}  // namespace tandem::messages
