// Connections of two protocols on one port, good and bad ones, many at a time.
#include "common/admin/admin_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/common/admin/http_client.h"

namespace tandem::admin {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

constexpr char kGet[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

class AdminPortTest : public testing::Test {
 protected:
  void SetUp() override {
    auto port =
        AdminPort::Start({.address = {.host = "127.0.0.1", .port = 0},
                          .metrics = [this] { return absl::StrCat("scrapes ", ++scrapes_, "\n"); },
                          .http2 = [this](int socket) { Take(socket); }});
    ASSERT_TRUE(port.ok()) << port.status();
    admin_ = *std::move(port);
    ASSERT_GT(admin_->port(), 0);
  }

  // In HTTP/2's place: says what it reads at first, and closes.
  void Take(int socket) {
    ++handed_over_;
    char bytes[sizeof(kPreface) - 1];
    // The preface may come in parts, and the socket does not block.
    size_t got = 0;
    while (got < sizeof(bytes)) {
      const ssize_t more = recv(socket, bytes + got, sizeof(bytes) - got, 0);
      if (more == 0 || (more < 0 && errno != EAGAIN)) break;
      if (more > 0) got += static_cast<size_t>(more);
    }
    send(socket, bytes, got, MSG_NOSIGNAL);
    close(socket);
  }

  std::atomic<int> scrapes_ = 0;
  std::atomic<int> handed_over_ = 0;
  std::unique_ptr<AdminPort> admin_;
};

TEST_F(AdminPortTest, MetricsAreAnswered) {
  EXPECT_THAT(Http(admin_->port(), kGet), EndsWith("\r\n\r\nscrapes 1\n"));
  EXPECT_THAT(Http(admin_->port(), kGet), EndsWith("\r\n\r\nscrapes 2\n"));
  EXPECT_THAT(Http(admin_->port(), "GET /x HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(handed_over_, 0);
}

TEST_F(AdminPortTest, Http2IsHandedOverUntouched) {
  EXPECT_EQ(Http(admin_->port(), kPreface), kPreface);
  EXPECT_EQ(handed_over_, 1);
  EXPECT_EQ(scrapes_, 0);
}

TEST_F(AdminPortTest, BytesMayComeOneByOne) {
  for (const absl::string_view request : {absl::string_view(kGet), absl::string_view(kPreface)}) {
    PlainConnection connection(admin_->port());
    for (const char byte : request) connection.Send({&byte, 1});
    EXPECT_THAT(connection.ReadToEnd(), EndsWith(request == kGet ? "scrapes 1\n" : kPreface));
  }
}

// "PROPFIND" begins as the preface of HTTP/2 does.
TEST_F(AdminPortTest, AMethodLikeThePrefaceIsHttp1) {
  EXPECT_THAT(Http(admin_->port(), "PROPFIND /metrics HTTP/1.1\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
  EXPECT_EQ(handed_over_, 0);
}

TEST_F(AdminPortTest, AClientThatLeavesIsForgotten) {
  for (const char* part : {"", "P", "PR", "GET", "GET /metrics HTTP/1.1\r\n"}) {
    PlainConnection connection(admin_->port());
    connection.Send(part);
    connection.SendEnd();
    EXPECT_EQ(connection.ReadToEnd(), "") << part;
  }
  EXPECT_THAT(Http(admin_->port(), kGet), EndsWith("scrapes 1\n"));
}

TEST_F(AdminPortTest, ARequestThatIsTooLongIsAnsweredBeforeItEnds) {
  PlainConnection connection(admin_->port());
  connection.Send("GET /metrics HTTP/1.1\r\nX: " + std::string(100'000, 'x'));
  EXPECT_THAT(connection.ReadToEnd(), StartsWith("HTTP/1.1 431"));
}

// Nobody is served later because others do nothing: the oldest of those loses its place.
TEST_F(AdminPortTest, IdleConnectionsHoldNobodyUp) {
  std::vector<PlainConnection> idle;
  for (int i = 0; i < 300; ++i) {
    idle.emplace_back(admin_->port());
    ASSERT_TRUE(idle.back().connected());
  }
  EXPECT_THAT(Http(admin_->port(), kGet), EndsWith("scrapes 1\n"));
  EXPECT_EQ(Http(admin_->port(), kPreface), kPreface);
  EXPECT_EQ(idle.front().ReadToEnd(), "");  // closed
}

TEST_F(AdminPortTest, SilenceIsClosedAfterAWhile) {
  const auto hasty = AdminPort::Start({.address = {.host = "127.0.0.1", .port = 0},
                                       .http2 = [this](int socket) { Take(socket); },
                                       .patience = absl::Milliseconds(20)});
  ASSERT_TRUE(hasty.ok()) << hasty.status();
  PlainConnection silent((*hasty)->port());
  PlainConnection half((*hasty)->port());
  half.Send("GET /metrics HTTP/1.1\r\n");
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_EQ(half.ReadToEnd(), "");
}

TEST_F(AdminPortTest, ManyAtOnce) {
  constexpr int kThreads = 8;
  constexpr int kEach = 25;
  std::atomic<int> good = 0;
  std::vector<std::thread> clients;
  for (int t = 0; t < kThreads; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        if (t % 2 == 0) {
          good += absl::StrContains(Http(admin_->port(), kGet), "scrapes ") ? 1 : 0;
        } else {
          good += Http(admin_->port(), kPreface) == kPreface ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, kThreads * kEach);
  EXPECT_EQ(scrapes_, kThreads * kEach / 2);
  EXPECT_EQ(handed_over_, kThreads * kEach / 2);
}

TEST_F(AdminPortTest, TheEndClosesWhatIsOpen) {
  PlainConnection waiting(admin_->port());
  EXPECT_THAT(Http(admin_->port(), kGet), EndsWith("scrapes 1\n"));  // so it was accepted
  const int port = admin_->port();
  admin_ = nullptr;
  EXPECT_EQ(waiting.ReadToEnd(), "");
  EXPECT_FALSE(PlainConnection(port).connected());
}

TEST(AdminPortAddress, AllAddressesOfANameAreListenedOn) {
  for (const char* host : {"localhost", "0.0.0.0"}) {
    auto port = AdminPort::Start({.address = {.host = host, .port = 0},
                                  .metrics = [] { return "x 1\n"; },
                                  .http2 = [](int socket) { close(socket); }});
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_THAT(Http((*port)->port(), kGet), EndsWith("x 1\n"));
  }
}

}  // namespace
}  // namespace tandem::admin
