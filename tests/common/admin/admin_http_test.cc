// The answers to requests of HTTP/1.1, good and bad.
#include "common/admin/admin_http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tandem::admin {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Metrics() { return "x 1\n"; }

TEST(AdminHttp, MetricsAreAnswered) {
  const auto answer =
      HttpAnswer("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n", Metrics);
  EXPECT_EQ(answer,
            "HTTP/1.1 200 OK\r\n"
            "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            "Content-Length: 4\r\n"
            "Connection: close\r\n\r\n"
            "x 1\n");
}

TEST(AdminHttp, AHeadHasNoBody) {
  const auto answer = HttpAnswer("HEAD /metrics HTTP/1.1\r\n\r\n", Metrics);
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(*answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(*answer, HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(*answer, EndsWith("\r\n\r\n"));
}

TEST(AdminHttp, AnUnfinishedHeadHasNoAnswer) {
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_EQ(HttpAnswer(request.substr(0, size), Metrics), std::nullopt) << size;
  }
  EXPECT_TRUE(HttpAnswer(request, Metrics).has_value());
}

TEST(AdminHttp, Answers) {
  struct Case {
    const char* request;
    const char* status;
    const char* text;
  };
  for (const Case& c : {
           Case{"GET /metrics?name=x HTTP/1.1\r\n\r\n", "200", "x 1\n"},
           Case{"GET /metrics HTTP/1.0\r\n\r\n", "200", "x 1\n"},
           Case{"GET /metrics HTTP/1.1\r\n\r\nmore", "200", "x 1\n"},
           Case{"GET / HTTP/1.1\r\n\r\n", "404", "/metrics"},
           Case{"GET /metrics/ HTTP/1.1\r\n\r\n", "404", "/metrics"},
           Case{"GET /healthz HTTP/1.1\r\n\r\n", "404", "grpc.health.v1.Health"},
           Case{"POST /healthz HTTP/1.1\r\n\r\n", "404", "/metrics"},
           Case{"POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", "405",
                "only GET and HEAD are supported"},
           Case{"get /metrics HTTP/1.1\r\n\r\n", "405", "Allow: GET, HEAD\r\n"},
           Case{"GET /metrics HTTP/2.0\r\n\r\n", "505", "HTTP/1.1"},
           Case{"GET /metrics HTTP/1.2\r\n\r\n", "505", "HTTP/1.1"},
           Case{"GET /metrics\r\n\r\n", "400", "METHOD TARGET VERSION"},
           Case{"GET  /metrics HTTP/1.1\r\n\r\n", "400", "METHOD TARGET VERSION"},
           Case{"\r\n\r\n", "400", "METHOD TARGET VERSION"},
           Case{"GET /metrics FTP/1.1\r\n\r\n", "400", "no version"},
           Case{"GET /metrics HTTP/1.1\r\nHost\r\n\r\n", "400", "NAME: VALUE"},
           Case{"GET /metrics HTTP/1.1\r\nHost : a\r\n\r\n", "400", "NAME: VALUE"},
           Case{"GET /metrics HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "400", "NAME: VALUE"},
           Case{"\x16\x03\x01\r\n\r\n", "400", "METHOD TARGET VERSION"},  // TLS
       }) {
    const auto answer = HttpAnswer(c.request, Metrics);
    ASSERT_TRUE(answer.has_value()) << c.request;
    EXPECT_THAT(*answer, StartsWith(std::string("HTTP/1.1 ") + c.status)) << c.request;
    EXPECT_THAT(*answer, HasSubstr(c.text)) << c.request;
    EXPECT_THAT(*answer, HasSubstr("Connection: close\r\n"));
  }
}

TEST(AdminHttp, WithoutMetricsThereAreNone) {
  const auto answer = HttpAnswer("GET /metrics HTTP/1.1\r\n\r\n", nullptr);
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(*answer, StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(*answer, EndsWith("this process has no metrics\n"));
}

TEST(AdminHttp, AHeadIsBounded) {
  const std::string start = "GET /metrics HTTP/1.1\r\nX: ";
  const std::string fits = start + std::string(kMaxHttpHeadBytes - start.size(), 'x');
  EXPECT_EQ(HttpAnswer(fits, Metrics), std::nullopt);
  EXPECT_THAT(*HttpAnswer(fits + "\r\n\r\n", Metrics), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(*HttpAnswer(fits + "x", Metrics), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(*HttpAnswer(fits + "x\r\n\r\n", Metrics), StartsWith("HTTP/1.1 431"));
}

}  // namespace
}  // namespace tandem::admin
