// Files that are not what they should be are named, and files that were replaced are noticed, by
// whatever way.
#include "common/security/pem_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "tests/common/security/authority.h"

namespace tandem::security {
namespace {

using ::testing::HasSubstr;

// The same key, behind a password.
std::string Encrypted(const std::string& pem) {
  BIO* const in = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(in, nullptr, nullptr, nullptr);
  TANDEM_CHECK(key != nullptr);
  BIO* const out = BIO_new(BIO_s_mem());
  const unsigned char password[] = "secret";
  PEM_write_bio_PrivateKey(out, key, EVP_aes_256_cbc(), password, sizeof password - 1, nullptr,
                           nullptr);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(in);
  BIO_free(out);
  EVP_PKEY_free(key);
  return text;
}

class PemFilesTest : public ::testing::Test {
 protected:
  std::string Problem(const std::string& certificate, const std::string& key) const {
    const auto identity = ReadIdentity(certificate, key);
    EXPECT_FALSE(identity.ok());
    const std::string message(identity.status().message());
    EXPECT_FALSE(absl::StrContains(message, "PRIVATE KEY")) << message;
    return message;
  }
  std::string ProblemOfCa(const std::string& path) const {
    const auto authorities = ReadAuthorities(path);
    EXPECT_FALSE(authorities.ok());
    return std::string(authorities.status().message());
  }

  const Authority ca_{"authority"};
  const PemPair pair_ = ca_.Sign({.name = "one"});
  const ScratchFolder folder_;
  const std::string certificate_ = folder_.Put("one.pem", pair_.certificate);
  const std::string key_ = folder_.Put("one.key", pair_.key);
};

TEST_F(PemFilesTest, APairIsReadWithItsSubjectAndItsEnd) {
  const auto identity = ReadIdentity(certificate_, key_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->certificate, pair_.certificate);
  EXPECT_EQ(identity->key, pair_.key);
  EXPECT_EQ(identity->subject, "CN=one");
  EXPECT_LT(absl::AbsDuration(identity->not_after - absl::Now() - absl::Hours(1)),
            absl::Minutes(2));
}

TEST_F(PemFilesTest, AChainEndsWithTheFirstThatEndsAndAuthoritiesWithTheLast) {
  const std::string sooner = ca_.Sign({.to_s = 600}).certificate;
  const std::string chain = folder_.Put("chain.pem", pair_.certificate + sooner);
  const auto identity = ReadIdentity(chain, key_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_LT(identity->not_after, absl::Now() + absl::Minutes(11));

  const auto authorities = ReadAuthorities(chain);
  ASSERT_TRUE(authorities.ok()) << authorities.status();
  EXPECT_GT(authorities->not_after, absl::Now() + absl::Minutes(50));
}

TEST_F(PemFilesTest, ACertificateOutsideItsPeriodIsNamedWithTheMoment) {
  const PemPair old = ca_.Sign({.from_s = -7200, .to_s = -3600});
  const std::string path = folder_.Put("old.pem", old.certificate);
  EXPECT_THAT(Problem(path, folder_.Put("old.key", old.key)),
              HasSubstr("TLS certificate " + path + ": expired at 20"));
  EXPECT_THAT(ProblemOfCa(path), HasSubstr("TLS CA " + path + ": expired at 20"));
  const PemPair early = ca_.Sign({.from_s = 1800, .to_s = 3600});
  const std::string later = folder_.Put("early.pem", early.certificate);
  EXPECT_THAT(Problem(later, folder_.Put("early.key", early.key)),
              HasSubstr("TLS certificate " + later + ": is not valid before 20"));
  // One that is left is enough, whichever.
  EXPECT_TRUE(ReadAuthorities(folder_.Put("both.pem", old.certificate + ca_.certificate())).ok());
}

TEST_F(PemFilesTest, ATruncatedCertificateIsBroken) {
  const std::string path =
      folder_.Put("half.pem", pair_.certificate.substr(0, pair_.certificate.size() / 2));
  EXPECT_EQ(Problem(path, key_), "TLS certificate " + path + ": has a broken certificate");
  EXPECT_EQ(ProblemOfCa(path), "TLS CA " + path + ": has a broken certificate");
  // Also behind one that is whole.
  folder_.Put("half.pem", pair_.certificate + ca_.certificate().substr(0, 200));
  EXPECT_EQ(Problem(path, key_), "TLS certificate " + path + ": has a broken certificate");
}

TEST_F(PemFilesTest, ATruncatedKeyIsNone) {
  const std::string path = folder_.Put("half.key", pair_.key.substr(0, pair_.key.size() / 2));
  EXPECT_EQ(Problem(certificate_, path),
            "TLS key " + path + ": has no private key in PEM that needs no password");
}

TEST_F(PemFilesTest, AKeyOfAnotherCertificateIsNamedWithThatCertificate) {
  const std::string path = folder_.Put("other.key", ca_.Sign({}).key);
  EXPECT_EQ(Problem(certificate_, path),
            "TLS key " + path + ": is not the key of the certificate " + certificate_);
}

TEST_F(PemFilesTest, HalfOfAReplacementIsReadAgain) {
  const PemPair next = ca_.Sign({.name = "next"});
  folder_.Put("one.key", next.key);
  int reads = 0;
  const absl::Status status = ReadPatiently([&] {
    if (++reads == 3) folder_.Put("one.pem", next.certificate);  // the other half
    return ReadIdentity(certificate_, key_).status();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(reads, 3);
}

TEST_F(PemFilesTest, WhatStaysWrongIsSaidAndOtherFaultsAtOnce) {
  folder_.Put("one.key", ca_.Sign({}).key);
  int reads = 0;
  const auto read = [&] {
    ++reads;
    return ReadIdentity(certificate_, key_).status();
  };
  EXPECT_EQ(ReadPatiently(read).code(), absl::StatusCode::kAborted);
  EXPECT_GT(reads, 1);
  reads = 0;
  folder_.Put("one.key", "nothing");
  EXPECT_EQ(ReadPatiently(read).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(reads, 1);
}

TEST_F(PemFilesTest, AnEncryptedKeyAsksNobody) {
  const std::string text = Encrypted(pair_.key);
  ASSERT_THAT(text, HasSubstr("ENCRYPTED"));
  const std::string path = folder_.Put("locked.key", text);
  EXPECT_EQ(Problem(certificate_, path),
            "TLS key " + path + ": has no private key in PEM that needs no password");
}

TEST_F(PemFilesTest, AnEmptyFileAFolderAndALargeOneAreNamed) {
  const std::string empty = folder_.Put("empty", "");
  EXPECT_EQ(Problem(empty, key_), "TLS certificate " + empty + ": is empty");
  EXPECT_EQ(Problem(certificate_, empty), "TLS key " + empty + ": is empty");
  EXPECT_EQ(ProblemOfCa(empty), "TLS CA " + empty + ": is empty");
  const std::string folder = folder_.Path("");
  EXPECT_EQ(Problem(folder, key_), "TLS certificate " + folder + ": not a regular file");
  EXPECT_EQ(Problem(certificate_, folder), "TLS key " + folder + ": not a regular file");
  const std::string large = folder_.Put("large", std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(Problem(large, key_),
            "TLS certificate " + large + ": larger than the maximum of 1048576 bytes");
  EXPECT_EQ(ReadIdentity(folder_.Path("none"), key_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PemFilesTest, StampsSeeAFileRenamedOverAnotherAndOneWrittenInPlace) {
  FileStamps stamps({certificate_, key_, ""});
  EXPECT_FALSE(stamps.Changed());
  folder_.Put("one.pem", pair_.certificate);  // the same content, but another file
  EXPECT_TRUE(stamps.Changed());
  EXPECT_FALSE(stamps.Changed());  // told once
  std::ofstream(key_) << "as many bytes, or not";
  EXPECT_TRUE(stamps.Changed());
  std::filesystem::remove(key_);
  EXPECT_TRUE(stamps.Changed());
  EXPECT_FALSE(stamps.Changed());
  folder_.Put("one.key", pair_.key);
  EXPECT_TRUE(stamps.Changed());
}

// As Kubernetes mounts a secret: tls.pem -> ..data/tls.pem, ..data -> ..1; the next one is a new
// folder, and the link `..data` renamed over the old one. Neither tls.pem nor its link's own inode
// changes.
TEST_F(PemFilesTest, StampsSeeALinkedFolderSwapped) {
  namespace fs = std::filesystem;
  const auto make = [&](const std::string& version, const std::string& text) {
    fs::create_directory(folder_.Path(version));
    folder_.Put(version + "/tls.pem", text);
    fs::create_symlink(version, folder_.Path("..data_tmp"));
    fs::rename(folder_.Path("..data_tmp"), folder_.Path("..data"));
  };
  make("..1", "first");
  fs::create_symlink("..data/tls.pem", folder_.Path("tls.pem"));
  FileStamps stamps({folder_.Path("tls.pem")});
  EXPECT_FALSE(stamps.Changed());
  EXPECT_EQ(*ReadSmallFile("file", folder_.Path("tls.pem")), "first");
  make("..2", "other");
  EXPECT_TRUE(stamps.Changed());
  EXPECT_EQ(*ReadSmallFile("file", folder_.Path("tls.pem")), "other");
  fs::remove_all(folder_.Path("..1"));  // what was in force before goes afterwards
  EXPECT_FALSE(stamps.Changed());
}

}  // namespace
}  // namespace tandem::security
