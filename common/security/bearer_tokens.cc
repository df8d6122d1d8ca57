#include "common/security/bearer_tokens.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"

namespace tandem::security {
namespace {

constexpr size_t kMinBytes = 16;
constexpr size_t kMaxBytes = 4096;
constexpr char kFile[] = "token file";

// `source` names it in errors.
absl::Status CheckToken(absl::string_view source, absl::string_view token) {
  if (token.size() < kMinBytes || token.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": a token of ", token.size(),
                                                   " characters; must be ", kMinBytes, " to ",
                                                   kMaxBytes));
  }
  if (!std::all_of(token.begin(), token.end(), [](char c) { return absl::ascii_isgraph(c); })) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": a token must be visible ASCII characters without spaces"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadTokens(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(kFile, path));
  std::vector<std::string> tokens;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    TANDEM_RETURN_IF_ERROR(CheckToken(absl::StrCat(kFile, " ", path, ":", number), line));
    tokens.emplace_back(line);
  }
  if (tokens.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kFile, " ", path, ": has no token; one per line is required"));
  }
  return tokens;
}

absl::StatusOr<std::string> ReadAuthorization(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> tokens, ReadTokens(path));
  return absl::StrCat("Bearer ", tokens.front());
}

std::array<unsigned char, 32> DigestOf(absl::string_view token) {
  std::array<unsigned char, 32> digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

}  // namespace

absl::StatusOr<std::vector<BearerTokens::Digest>> BearerTokens::Read(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> tokens, ReadTokens(path));
  std::vector<Digest> digests;
  digests.reserve(tokens.size());
  for (const std::string& token : tokens) digests.push_back(DigestOf(token));
  return digests;
}

absl::StatusOr<std::unique_ptr<BearerTokens>> BearerTokens::Load(const std::string& path) {
  FileStamps stamps({path});  // before it is read: a change in between is seen at the next check
  TANDEM_ASSIGN_OR_RETURN(std::vector<Digest> digests, Read(path));
  return std::unique_ptr<BearerTokens>(
      new BearerTokens(path, std::move(stamps), std::move(digests)));
}

BearerTokens::BearerTokens(std::string path, FileStamps stamps, std::vector<Digest> digests)
    : path_(std::move(path)), stamps_(std::move(stamps)), digests_(std::move(digests)) {}

BearerTokens::~BearerTokens() { concurrency::MutexLock lock(mutex_); }

void BearerTokens::ReloadIfChanged() {
  if (!stamps_.Changed()) return;
  absl::StatusOr<std::vector<Digest>> read = Read(path_);
  if (!read.ok()) {
    TANDEM_LOG(kError) << base::LogFields("tokens_kept").Add("reason", read.status().message());
    return;
  }
  digests_ = *std::move(read);
  TANDEM_LOG(kInfo)
      << base::LogFields("tokens_replaced").Add("file", path_).Add("tokens", digests_.size());
}

size_t BearerTokens::size() {
  concurrency::MutexLock lock(mutex_);
  return digests_.size();
}

absl::Status BearerTokens::Check(absl::Span<const absl::string_view> values) {
  if (values.empty()) {
    return absl::UnauthenticatedError(
        "no token: the metadata 'authorization' must be 'Bearer TOKEN'");
  }
  if (values.size() > 1) {
    return absl::UnauthenticatedError("the metadata 'authorization' is there more than once");
  }
  absl::string_view value = values[0];
  const size_t space = value.find(' ');
  if (space == value.npos || !absl::EqualsIgnoreCase(value.substr(0, space), "Bearer")) {
    return absl::UnauthenticatedError(
        "the metadata 'authorization' is of another scheme; it must be 'Bearer TOKEN'");
  }
  const Digest given = DigestOf(absl::StripAsciiWhitespace(value.substr(space + 1)));
  int equal = 0;
  {
    concurrency::MutexLock lock(mutex_);
    ReloadIfChanged();
    // All of them, whichever is right.
    for (const Digest& known : digests_) {
      equal |= static_cast<int>(CRYPTO_memcmp(given.data(), known.data(), given.size()) == 0);
    }
  }
  if (equal != 0) return absl::OkStatus();
  return absl::UnauthenticatedError("unknown token in 'authorization'");
}

absl::StatusOr<std::shared_ptr<ClientToken>> ClientToken::Load(const std::string& path) {
  FileStamps stamps({path});
  TANDEM_ASSIGN_OR_RETURN(std::string authorization, ReadAuthorization(path));
  return std::shared_ptr<ClientToken>(
      new ClientToken(path, std::move(stamps), std::move(authorization)));
}

absl::StatusOr<std::shared_ptr<ClientToken>> ClientToken::Of(absl::string_view source,
                                                             absl::string_view token) {
  TANDEM_RETURN_IF_ERROR(CheckToken(source, token));
  return std::shared_ptr<ClientToken>(
      new ClientToken("", FileStamps({}), absl::StrCat("Bearer ", token)));
}

ClientToken::ClientToken(std::string path, FileStamps stamps, std::string authorization)
    : path_(std::move(path)),
      stamps_(std::move(stamps)),
      authorization_(std::move(authorization)) {}

std::string ClientToken::Authorization() {
  concurrency::MutexLock lock(mutex_);
  if (stamps_.Changed()) {
    absl::StatusOr<std::string> read = ReadAuthorization(path_);
    if (read.ok()) {
      authorization_ = *std::move(read);
    } else {
      TANDEM_LOG(kError) << base::LogFields("tokens_kept").Add("reason", read.status().message());
    }
  }
  return authorization_;
}

}  // namespace tandem::security
