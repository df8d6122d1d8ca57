#include "common/tokenizer/content_id.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/tokenizer/tokenizer.h"

namespace tandem::tokenizer {
namespace {

constexpr size_t kDigestSize = 32;
using Digest = std::array<uint8_t, kDigestSize>;

// SHA-256, with what OpenSSL looks up kept over many short messages.
class Sha256 {
 public:
  Sha256() : method_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context_(EVP_MD_CTX_new()) {
    TANDEM_CHECK(method_ != nullptr && context_ != nullptr) << "OpenSSL has no SHA-256";
  }
  ~Sha256() {
    EVP_MD_CTX_free(context_);
    EVP_MD_free(method_);
  }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Digest Hash(std::string_view bytes) {
    Digest digest;
    const bool done = EVP_DigestInit_ex(context_, method_, nullptr) == 1 &&
                      EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1 &&
                      EVP_DigestFinal_ex(context_, digest.data(), nullptr) == 1;
    TANDEM_CHECK(done) << "SHA-256 of " << bytes.size() << " bytes failed";
    return digest;
  }

 private:
  EVP_MD* method_;
  EVP_MD_CTX* context_;
};

uint32_t LittleEndian32(const Digest& digest) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | digest[static_cast<size_t>(i)];
  return value;
}

}  // namespace

ContentId MakeContentId(absl::Span<const TokenContent> tokens) {
  Sha256 sha256;
  ContentId result;
  result.hashes.reserve(tokens.size());
  // The id is a hash over the tokens' whole digests, each of one length: no two lists of contents
  // read the same.
  std::string digests;
  digests.reserve(tokens.size() * kDigestSize);
  std::string content;
  for (const TokenContent& token : tokens) {
    content.assign(1, static_cast<char>(token.kind));
    content.append(token.bytes);
    const Digest digest = sha256.Hash(content);
    digests.append(reinterpret_cast<const char*>(digest.data()), digest.size());
    const bool none = token.kind == TokenKind::kNone;
    result.hashes.push_back(none ? 0 : std::max(LittleEndian32(digest), 1u));
  }
  const Digest whole = sha256.Hash(digests);
  result.id =
      absl::StrCat("sha256:", absl::BytesToHexString(absl::string_view(
                                  reinterpret_cast<const char*>(whole.data()), whole.size())));
  return result;
}

std::optional<TokenDifference> FirstDifference(absl::Span<const uint32_t> ours,
                                               absl::Span<const uint32_t> theirs,
                                               uint32_t first_token) {
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const uint32_t our_hash = i < ours.size() ? ours[i] : 0;
    const uint32_t their_hash = i < theirs.size() ? theirs[i] : 0;
    if (our_hash != their_hash) {
      return TokenDifference{first_token + static_cast<uint32_t>(i), our_hash, their_hash};
    }
  }
  return std::nullopt;
}

std::string Describe(const TokenDifference& difference, const Tokenizer& ours) {
  const std::string bytes(ours.TokenBytes(difference.token));
  const std::string here =
      difference.ours == 0 ? std::string("not a token")
                           : absl::StrCat(ours.IsSpecial(difference.token) ? "special token " : "",
                                          "\"", absl::Utf8SafeCEscape(bytes), "\"");
  return absl::StrCat("token ", difference.token, " is ", here, " here, ",
                      difference.theirs == 0 ? "not a token" : "another one", " there");
}

absl::Status CompareTokenizers(absl::string_view our_flag, const Tokenizer& ours,
                               absl::string_view their_flag, const Tokenizer& theirs) {
  if (ours.content_id() == theirs.content_id()) return absl::OkStatus();
  std::string difference;
  if (const auto first = FirstDifference(ours.token_hashes(), theirs.token_hashes())) {
    difference = absl::StrCat("; the first that differs: ", Describe(*first, ours));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(our_flag, " and ", their_flag, " have different tokenizers: ", ours.content_id(),
                   " and ", theirs.content_id(), difference, "; a pair must share one"));
}

}  // namespace tandem::tokenizer
