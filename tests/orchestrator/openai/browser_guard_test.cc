// What a page of another site cannot do at a port without tokens.
#include "orchestrator/openai/browser_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;

http::Request Head(std::vector<http::Header> headers) { return {.headers = std::move(headers)}; }

bool HostPasses(const BrowserGuard& guard, const std::string& host) {
  return guard.CheckHost(Head({{"host", host}})).ok();
}

TEST(BrowserGuard, ALoopbackPortIsCalledByAddressesAndLoopbackNames) {
  for (const char* listen : {"127.0.0.1", "::1", "localhost", "127.8.8.8"}) {
    const BrowserGuard guard{.listen_host = listen};
    for (const char* host : {"localhost", "localhost:8000", "LocalHost.:8000", "chat.localhost",
                             "127.0.0.1:8000", "[::1]:8000", "10.0.0.7", "[fe80::1]:80"}) {
      EXPECT_TRUE(HostPasses(guard, host)) << host;
    }
    for (const char* host : {"evil.example", "evil.example:8000", "localhost.evil.example",
                             "127.0.0.1.evil.example:8000", "notlocalhost", "x", "2130706433.x"}) {
      EXPECT_FALSE(HostPasses(guard, host)) << host;
    }
  }
  const absl::Status refused =
      BrowserGuard{.listen_host = "127.0.0.1"}.CheckHost(Head({{"host", "evil.example:8000"}}));
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::AllOf(HasSubstr("Host: evil.example:8000"),
                               HasSubstr("--http-allowed-hosts=evil.example")));
  // HTTP/1.0 without one: no browser sends that.
  EXPECT_TRUE(BrowserGuard{.listen_host = "127.0.0.1"}.CheckHost(Head({})).ok());
}

TEST(BrowserGuard, OtherPortsAreCalledByAnyNameUnlessNamesAreGiven) {
  EXPECT_TRUE(HostPasses({.listen_host = "0.0.0.0"}, "tandem-orchestrator.tandem.svc:8000"));
  for (const char* listen : {"0.0.0.0", "127.0.0.1", "llm.internal"}) {
    const BrowserGuard guard{.listen_host = listen, .allowed_hosts = {"llm.example.com"}};
    EXPECT_TRUE(HostPasses(guard, "LLM.example.com:443"));
    EXPECT_TRUE(HostPasses(guard, "10.0.0.7:8000")) << "as probes call it";
    EXPECT_EQ(HostPasses(guard, "llm.internal"), std::string(listen) == "llm.internal");
    EXPECT_FALSE(HostPasses(guard, "evil.example"));
  }
  EXPECT_TRUE(HostPasses({.listen_host = "::1", .allowed_hosts = {"*"}}, "evil.example"));
}

TEST(BrowserGuard, PagesOfOtherSitesAreRefused) {
  const BrowserGuard guard{.listen_host = "0.0.0.0", .allowed_hosts = {"chat.example"}};
  const auto passes = [&](const std::string& origin, const std::string& site = "",
                          const std::string& host = "here.example:8000") {
    http::Request head = Head({{"host", host}});
    if (!origin.empty()) head.headers.push_back({"origin", origin});
    if (!site.empty()) head.headers.push_back({"sec-fetch-site", site});
    return guard.CheckOrigin(head).ok();
  };
  EXPECT_TRUE(passes("")) << "no browser";
  EXPECT_TRUE(passes("http://here.example:8000")) << "its own page";
  EXPECT_TRUE(passes("http://here.example:8000", "same-origin"));
  EXPECT_TRUE(passes("https://here.example", "same-origin", "10.0.0.7:8000")) << "behind a proxy";
  EXPECT_TRUE(passes("https://chat.example", "cross-site")) << "it is allowed by name";
  EXPECT_TRUE(passes("http://localhost:3000", "cross-site")) << "a page of the user's own machine";
  EXPECT_FALSE(passes("http://here.example:9000")) << "another port";
  EXPECT_FALSE(passes("https://evil.example", "cross-site"));
  EXPECT_FALSE(passes("https://evil.example"));
  EXPECT_FALSE(passes("http://6.6.6.6", "cross-site"));
  EXPECT_FALSE(passes("http://localhost.evil.example"));
  EXPECT_FALSE(passes("http://here.example:8000", "cross-site")) << "the browser knows better";
  EXPECT_FALSE(passes("", "cross-site"));
  EXPECT_FALSE(passes("null")) << "a page in a sandbox";
  EXPECT_FALSE(passes("null", "cross-site"));
}

TEST(BrowserGuard, NamesOfTheFlagAreNames) {
  EXPECT_TRUE((BrowserGuard{.allowed_hosts = {"a.example", "b", "*"}}).Validate("x").ok());
  for (const char* wrong : {"", "https://a.example", "a.example:80", "A.example", "*.example"}) {
    EXPECT_THAT(std::string((BrowserGuard{.allowed_hosts = {wrong}}).Validate("x").message()),
                HasSubstr("such as llm.example.com"));
  }
}

TEST(BrowserGuard, ABodyIsJson) {
  const auto check = [](std::vector<std::string> types) {
    http::Request head;
    for (std::string& type : types) head.headers.push_back({"content-type", std::move(type)});
    return CheckContentType(head);
  };
  EXPECT_TRUE(check({"application/json"}).ok());
  EXPECT_TRUE(check({"Application/JSON ; charset=utf-8"}).ok());
  for (const std::vector<std::string>& types :
       std::vector<std::vector<std::string>>{{},
                                             {""},
                                             {"text/plain"},
                                             {"application/x-www-form-urlencoded"},
                                             {"text/plain; x=application/json"},
                                             {"application/json", "text/plain"},
                                             {"application/jsonp"}}) {
    EXPECT_THAT(std::string(check(types).message()), HasSubstr("Content-Type: application/json"));
  }
}

}  // namespace
}  // namespace tandem::orchestrator
