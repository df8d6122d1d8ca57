// The reasons are as gRPC 1.51.1 with OpenSSL 3.0 gave them; integration_security_test has them
// from the real thing.
#include "common/security/handshake_hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tandem::security {
namespace {

using ::testing::HasSubstr;

std::string Hint(const std::string& reason) { return std::string(HandshakeHint(reason)); }

TEST(HandshakeHint, NamesWhatToDo) {
  const std::string fatal =
      "Handshake failed with fatal error SSL_ERROR_SSL: error:0A0000C7:SSL routines::";
  EXPECT_THAT(Hint(fatal + "peer did not return a certificate."), HasSubstr("--tls-certificate"));
  EXPECT_THAT(Hint(fatal + "certificate verify failed."), HasSubstr("renew it, or add"));
  EXPECT_THAT(Hint(fatal + "wrong version number."), HasSubstr("plaintext"));
  EXPECT_THAT(Hint(fatal + "http request."), HasSubstr("plaintext"));
  EXPECT_THAT(Hint(fatal + "sslv3 alert certificate expired."), HasSubstr("here has expired"));
  EXPECT_THAT(Hint(fatal + "tlsv1 alert unknown ca."), HasSubstr("authority"));
  EXPECT_THAT(Hint("last error: UNKNOWN: ipv4:127.0.0.1:1: Trying to connect an http1.x server"),
              HasSubstr("speaks HTTP/1.1: take the gRPC port"));
  EXPECT_THAT(
      Hint("Failed parsing HTTP/2 (Expected SETTINGS frame as the first frame, got frame type 79)"),
      HasSubstr("take the gRPC port"));
  EXPECT_THAT(Hint("UNKNOWN:Cannot check peer: missing selected ALPN property."),
              HasSubstr("HTTP/1.1: take the gRPC port"));
  EXPECT_THAT(Hint("UNKNOWN:Custom verification check failed with error: UNAUTHENTICATED: Hostname "
                   "Verification Check failed."),
              HasSubstr("--peer-tls-server-name"));
}

TEST(HandshakeHint, NothingIsGuessed) {
  EXPECT_EQ(Hint(""), "");
  EXPECT_EQ(Hint("failed to connect to all addresses; last error: Connection refused"), "");
}

}  // namespace
}  // namespace tandem::security
