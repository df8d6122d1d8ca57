#include "client/pull/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem::client {
namespace {

constexpr size_t kSha256Digits = 64;
constexpr size_t kSha1Digits = 40;

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
  });
}

}  // namespace

struct Digest::Context {
  Context() : evp(EVP_MD_CTX_new()) { TANDEM_CHECK(evp != nullptr); }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  EVP_MD_CTX* evp;
};

Digest::Digest(std::string etag, std::unique_ptr<Context> context)
    : etag_(std::move(etag)), context_(std::move(context)) {}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

absl::StatusOr<Digest> Digest::For(absl::string_view etag, int64_t size) {
  const bool is_sha256 = etag.size() == kSha256Digits;
  if ((!is_sha256 && etag.size() != kSha1Digits) || !IsHex(etag)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its ETag '", etag.substr(0, 80), "' is not a hash of the hub"));
  }
  Digest digest(std::string(etag), std::make_unique<Context>());
  TANDEM_CHECK(
      EVP_DigestInit_ex(digest.context_->evp, is_sha256 ? EVP_sha256() : EVP_sha1(), nullptr) == 1);
  if (!is_sha256) digest.Add(absl::StrCat("blob ", size, absl::string_view("\0", 1)));
  return digest;
}

void Digest::Add(absl::string_view bytes) {
  TANDEM_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

bool Digest::Matches() {
  unsigned char value[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  TANDEM_CHECK(EVP_DigestFinal_ex(context_->evp, value, &length) == 1);
  const absl::string_view bytes(reinterpret_cast<const char*>(value), length);
  return absl::BytesToHexString(bytes) == etag_;
}

}  // namespace tandem::client
