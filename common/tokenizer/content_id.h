// Content ids: whether two tokenizers give every id the same meaning, without sending either.
//
// A token's content is its kind (none, normal, special) and its bytes (a special token's name). The
// id of a tokenizer is SHA-256 over the contents of all ids in order, so it does not depend on how
// tokenizer.json is laid out, on merges or on normalization: a draft and a target need to agree on
// what ids mean, not on how text becomes ids. All functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem::tokenizer {

class Tokenizer;

enum class TokenKind : uint8_t { kNone = 0, kNormal = 1, kSpecial = 2 };

// The meaning of one id. The bytes are borrowed.
struct TokenContent {
  TokenKind kind = TokenKind::kNone;
  std::string_view bytes;
};

struct ContentId {
  std::string id;  // "sha256:" and 64 hexadecimal digits
  std::vector<uint32_t>
      hashes;  // one per token, by id: 32 bits of SHA-256; 0 where there is no token
};

ContentId MakeContentId(absl::Span<const TokenContent> tokens);

struct TokenDifference {
  uint32_t token = 0;  // id
  uint32_t ours = 0;   // hash; 0 = no such token
  uint32_t theirs = 0;
};

// The first id whose hashes differ, nullopt if none does. Entry i of either list is of the id
// first_token + i; what is beyond a list's end counts as no token, so lists of whole vocabularies
// may be of different length, but parts must be cut at the same id.
std::optional<TokenDifference> FirstDifference(absl::Span<const uint32_t> ours,
                                               absl::Span<const uint32_t> theirs,
                                               uint32_t first_token = 0);

// "token 17 is \" the\" here, another one there", for a message about two tokenizers.
std::string Describe(const TokenDifference& difference, const Tokenizer& ours);

// FAILED_PRECONDITION: an id does not mean the same to both; names the two by `our_flag` and
// `their_flag`, and the first id that differs.
absl::Status CompareTokenizers(absl::string_view our_flag, const Tokenizer& ours,
                               absl::string_view their_flag, const Tokenizer& theirs);

}  // namespace tandem::tokenizer
