// Hello (tokens.proto) and Welcome (describe.proto): who may talk to whom.
//
// Thread safety: pure functions, but for NewInstanceId and NextIncarnation, which are thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/messages/limits.h"
#include "tandem/internal/v1/tokens.pb.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::messages {

inline constexpr uint32_t kProtocolRevision = 2;
// It takes trees of draft tokens (a target), or drafts them (a draft), up to Limits.max_nodes.
inline constexpr char kFeatureTrees[] = "trees";
// A draft's: Shape.min_confidence ends a block.
inline constexpr char kFeatureConfidence[] = "confidence";
inline constexpr uint32_t kMaxTokenHashes = 131072;  // in one Describe
inline constexpr size_t kMaxClientIdBytes = 128;

// The server's check of a client. INVALID_ARGUMENT: client_id. FAILED_PRECONDITION, naming both
// values: another revision, a feature that is not offered, another tokenizer or model than
// demanded.
absl::Status CheckHello(const internal::v1::Hello& hello, const v1::Welcome& mine);

struct WelcomeExpectations {
  std::string tokenizer_id;           // empty = any
  std::string model_id;               // empty = any
  std::vector<std::string> features;  // all needed
};

// What a server ends a stream with when another stream of its client id is newer: ABORTED.
absl::Status Overtaken(const std::string& message);
// Whether a stream ended so. If it is the client's newest one, another client has the same id.
bool IsOvertaken(const absl::Status& status);
// A client id that no other client has: `client_id` and `incarnation`, which is one of the client's
// own. At most kMaxClientIdBytes.
std::string UniqueClientId(const std::string& client_id, uint64_t incarnation);

// The client's check of a server; FAILED_PRECONDITION as above. An empty id in `welcome` counts as
// another one.
absl::Status CheckWelcome(const v1::Welcome& welcome, const WelcomeExpectations& expected);

// Finds the first token in which two tokenizers differ, by one hash a token (Describe's
// token_hashes).
//   while (auto range = search.Next()) { ...ask for the range...; search.Compare(hashes); }
class TokenHashSearch {
 public:
  struct Range {
    uint32_t from = 0;
    uint32_t count = 0;
  };

  // `mine`: one hash a token; must outlive the search.
  explicit TokenHashSearch(absl::Span<const uint32_t> mine) : mine_(mine) {}

  // The range to ask for next; nullopt when the answer is known.
  std::optional<Range> Next() const;
  // The peer's hashes of Next()'s range; shorter at the end of its vocabulary.
  void Compare(absl::Span<const uint32_t> theirs);

  // Once Next() is nullopt: the lowest id that differs, or that only one side has; nullopt: there
  // is none.
  std::optional<uint32_t> first_difference() const { return difference_; }

 private:
  absl::Span<const uint32_t> mine_;
  uint32_t from_ = 0;
  bool over_ = false;
  std::optional<uint32_t> difference_;
};

// `mismatch` with the first different token (or that none was found) added to its message.
absl::Status WithFirstDifferentToken(const absl::Status& mismatch, std::optional<uint32_t> token);

// 16 random hexadecimal digits; call once per process.
std::string NewInstanceId();

// Rises with every call, and over restarts as long as the clock does not go back: microseconds
// since 1970, or one more than the last.
uint64_t NextIncarnation();

}  // namespace tandem::messages
