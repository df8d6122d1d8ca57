#include "client/pull/digest.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem::client {
namespace {

// `printf hello | git hash-object --stdin`, `printf hello | sha256sum`.
constexpr char kGit[] = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";
constexpr char kSha256[] = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

bool Matches(const char* etag, const std::string& text, int64_t size) {
  Digest digest = Digest::For(etag, size).value();
  for (const char c : text) digest.Add(std::string(1, c));
  return digest.Matches();
}

TEST(DigestTest, IsGitsHashOrSha256ByTheLengthOfTheETag) {
  EXPECT_TRUE(Matches(kGit, "hello", 5));
  EXPECT_FALSE(Matches(kGit, "hello", 6));
  EXPECT_FALSE(Matches(kGit, "hellO", 5));
  EXPECT_TRUE(Matches(kSha256, "hello", 5));
  EXPECT_FALSE(Matches(kSha256, "hell", 5));
}

TEST(DigestTest, AnythingElseIsNoHash) {
  for (const char* etag :
       {"", "main", "../../../x", "B6FC4C620B67D95F953A5C1C1230AAAB5DB5A1B0",
        "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b", "/6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"}) {
    EXPECT_FALSE(Digest::For(etag, 0).ok()) << etag;
  }
}

}  // namespace
}  // namespace tandem::client
