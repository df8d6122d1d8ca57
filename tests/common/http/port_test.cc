// Connections of a port of HTTP, good and bad ones.
#include "common/http/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/common/http/port_fixture.h"

namespace tandem::http {
namespace {

using ::tandem::testing::WaitUntil;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kClose[] = "Connection: close\r\n";

// That this process has open.
size_t Sockets() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string what = std::filesystem::read_symlink(entry, gone).string();
    count += what.rfind("socket:", 0) == 0 ? 1 : 0;
  }
  return count;
}

TEST_F(PortTest, AnswersRequestsOfAConnectionInTheirOrder) {
  Serve();
  auto client = Connect();
  client.Send(Post("/echo", "one") + Post("/echo", "two") + Post("/echo", "three", kClose));
  const std::string all = client.ReadToEnd();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                              "Content-Length: 3\r\n\r\noneHTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(all, AllOf(HasSubstr("\r\n\r\ntwoHTTP"), EndsWith("Connection: close\r\n\r\nthree")));
}

TEST_F(PortTest, TakesBytesOneByOne) {
  Serve();
  auto client = Connect();
  for (const char byte : Post("/echo", "slowly", kClose)) client.Send({&byte, 1});
  EXPECT_THAT(client.ReadToEnd(), EndsWith("\r\n\r\nslowly"));
}

TEST_F(PortTest, HeadHasNoBody) {
  Serve();
  auto client = Connect();
  client.Send("HEAD /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab");
  EXPECT_THAT(client.ReadToEnd(), AllOf(HasSubstr("Content-Length: 2\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(PortTest, SaysContinueToWhoWaitsForIt) {
  Serve();
  auto client = Connect();
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
      "Connection: close\r\n\r\n");
  EXPECT_EQ(client.Read(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("ab");
  EXPECT_THAT(client.ReadToEnd(), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\nab")));
}

TEST_F(PortTest, RefusesByTheHeadAndEndsTheConnection) {
  Serve();
  auto client = Connect();
  // More than the port reads ahead: its answer comes all the same.
  client.Send(Post("/no", std::string(1 << 20, 'x')) + Get("/echo"));
  const std::string all = client.ReadToEnd();
  EXPECT_THAT(all, AllOf(StartsWith("HTTP/1.1 401"), HasSubstr(kClose), EndsWith("no token")));
}

TEST_F(PortTest, RefusesBodiesForWhichThereIsNoRoom) {
  handler_.budget = std::make_unique<transport::ByteBudget>(400'000);
  Serve();
  auto client = Connect();
  client.Send(Post("/echo", std::string(300'000, 'x')));
  EXPECT_THAT(client.ReadToEnd(), AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("at most 100000")));
}

// A client whose body stops short of its end.
admin::PlainConnection Stopped(int port, size_t bytes) {
  admin::PlainConnection client(port);
  client.Send(absl::StrCat("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: ", bytes + 1,
                           "\r\n\r\n", std::string(bytes, 'x')));
  return client;
}

TEST_F(PortTest, BodiesThatStopGiveTheirMemoryToOthers) {
  constexpr size_t kBytes = 180'000;  // so 3 times 64 KiB are held for each
  handler_.budget = std::make_unique<transport::ByteBudget>(size_t{1} << 20);
  Serve();
  std::vector<admin::PlainConnection> stopped;
  for (int i = 0; i < 12; ++i) {
    stopped.push_back(Stopped(port_->port(), kBytes));
    // All of what was sent before is held. The share of one address is 4 of these bodies.
    ASSERT_TRUE(WaitUntil([&] { return handler_.holds == 3 * (i + 1); })) << handler_.holds;
  }
  auto client = Connect();
  client.Send(Post("/echo", std::string(200'000, 'y'), kClose));
  EXPECT_THAT(client.ReadToEnd(), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("yy")));
  EXPECT_THAT(stopped.front().ReadToEnd(), AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("slowly")));
}

TEST_F(PortTest, AnswersWhatIsNoRequestAndEndsTheConnection) {
  Serve();
  for (const std::string bytes :
       {"nonsense\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
    auto client = Connect();
    client.Send(bytes);
    EXPECT_THAT(client.ReadToEnd(), AllOf(StartsWith("HTTP/1.1 "), HasSubstr(kClose)));
  }
  auto large = Connect();
  large.Send("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(20000, 'x'));
  EXPECT_THAT(large.ReadToEnd(), StartsWith("HTTP/1.1 431"));
}

TEST_F(PortTest, EndsWhoIsSlowOrSilent) {
  PortOptions options;
  options.patience.head = absl::Milliseconds(300);
  options.patience.between = absl::Milliseconds(300);
  options.patience.first_byte = absl::Milliseconds(300);
  options.patience.idle = absl::Milliseconds(300);
  Serve(options);
  auto silent = Connect();
  auto between = Connect();
  auto in_head = Connect();
  auto in_body = Connect();
  between.Send(Post("/echo", "x"));
  in_head.Send("GET / HTTP/1.1\r\nHo");
  in_body.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab");
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_THAT(between.ReadToEnd(), EndsWith("\r\n\r\nx"));
  EXPECT_THAT(in_head.ReadToEnd(), StartsWith("HTTP/1.1 408"));
  EXPECT_THAT(in_body.ReadToEnd(), StartsWith("HTTP/1.1 408"));
}

TEST_F(PortTest, StreamsInChunks) {
  Serve();
  auto client = Connect();
  client.Send(Get("/stream", kClose));
  const std::shared_ptr<Reply> reply = handler_.Take();
  const auto listener = std::make_shared<CountingListener>();
  reply->Listen(listener);
  reply->Begin({.type = "text/event-stream"});
  reply->Write("data: a\n\n");
  reply->Write("");
  reply->Write("data: b\n\n");
  EXPECT_TRUE(WaitUntil([&] { return listener->written == 3; }));
  EXPECT_FALSE(listener->over);
  reply->End();
  EXPECT_THAT(client.ReadToEnd(),
              AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"),
                    EndsWith("\r\n\r\n9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\n0\r\n\r\n")));
  EXPECT_TRUE(WaitUntil([&] { return listener->over.load(); }));
  EXPECT_TRUE(listener->complete);
  reply->Write("late");  // does nothing
  EXPECT_EQ(listener->written, 3);
}

TEST_F(PortTest, StreamsToHttp10WithoutChunks) {
  Serve();
  auto client = Connect();
  client.Send("GET /stream HTTP/1.0\r\n\r\n");
  const std::shared_ptr<Reply> reply = handler_.Take();
  reply->Begin({.body = "a"});
  reply->Write("b");
  reply->End();
  EXPECT_THAT(client.ReadToEnd(), AllOf(Not(HasSubstr("chunked")), EndsWith("\r\n\r\nab")));
}

TEST_F(PortTest, TellsToThePieceWhatAClientHasTaken) {
  PortOptions options;
  options.patience.reader = absl::Hours(1);
  Serve(options);
  auto client = Connect();
  client.Send(Get("/stream", kClose));
  const std::shared_ptr<Reply> reply = handler_.Take();
  const auto listener = std::make_shared<CountingListener>();
  reply->Listen(listener);
  reply->Begin({});
  constexpr int kPieces = 150;
  for (int i = 0; i < kPieces; ++i) reply->Write(std::string(100'000, 'x'));
  reply->End();
  int before = -1;
  ASSERT_TRUE(WaitUntil([&] {  // until it stands still
    const int now = listener->written;
    absl::SleepFor(absl::Milliseconds(200));
    const bool still = now == before && now == listener->written;
    before = now;
    return still;
  }));
  // Longer than the acceptor's patience with who acknowledges nothing.
  absl::SleepFor(absl::Seconds(7));
  EXPECT_LT(listener->written, kPieces / 2) << "nobody reads";
  EXPECT_FALSE(listener->over);
  EXPECT_GT(client.ReadToEnd().size(), size_t{kPieces} * 100'000);
  EXPECT_TRUE(WaitUntil([&] { return listener->over.load(); }));
  EXPECT_TRUE(listener->complete);
  EXPECT_EQ(listener->written, kPieces);
}

TEST_F(PortTest, EndsWhoDoesNotRead) {
  PortOptions options;
  options.patience.reader = absl::Milliseconds(300);
  Serve(options);
  auto client = Connect();
  client.Send(Get("/stream"));
  const std::shared_ptr<Reply> reply = handler_.Take();
  const auto listener = std::make_shared<CountingListener>();
  reply->Listen(listener);
  reply->Begin({});
  reply->Write(std::string(15'000'000, 'x'));
  EXPECT_TRUE(WaitUntil([&] { return listener->over.load(); }));
  EXPECT_FALSE(listener->complete);
}

TEST_F(PortTest, TellsAtOnceThatAClientHasGone) {
  Serve();
  const auto listener = std::make_shared<CountingListener>();
  const auto late = std::make_shared<CountingListener>();
  std::shared_ptr<Reply> reply;
  {
    auto client = Connect();
    // Behind it lies more than the port reads ahead, which must not hide the end. Nothing is
    // written, so nothing but the end tells.
    client.Send(Get("/stream") + std::string(90'000, 'x'));
    reply = handler_.Take();
    reply->Listen(listener);
  }
  EXPECT_TRUE(WaitUntil([&] { return listener->over.load(); }));
  EXPECT_FALSE(listener->complete);
  reply->Begin({});
  reply->Write("b");
  reply->End();
  std::shared_ptr<Reply> unheard;
  {
    auto client = Connect();
    client.Send(Get("/stream"));
    unheard = handler_.Take();
  }
  port_ = nullptr;
  unheard->Listen(late);  // who comes later is told, too
  EXPECT_TRUE(late->over);
  EXPECT_FALSE(late->complete);
}

TEST_F(PortTest, AnAbortedAnswerIsSeenToBeIncomplete) {
  Serve();
  auto client = Connect();
  client.Send(Get("/stream"));
  const std::shared_ptr<Reply> reply = handler_.Take();
  reply->Begin({.body = "a"});
  reply->Abort();
  EXPECT_THAT(client.ReadToEnd(), Not(HasSubstr("0\r\n\r\n")));
}

TEST_F(PortTest, EndsBodiesThatTakeTooLong) {
  PortOptions options;
  options.patience.body = absl::Milliseconds(300);
  Serve(options);
  EXPECT_THAT(Stopped(port_->port(), 2).ReadToEnd(), StartsWith("HTTP/1.1 408"));
}

TEST_F(PortTest, WhoIsSilentGivesWayToANewcomer) {
  PortOptions options;
  options.max_connections = 4;
  options.patience.first_byte = options.patience.head = options.patience.body = absl::Hours(1);
  Serve(options);
  auto answered = Connect();
  answered.Send(Get("/stream", kClose));
  const std::shared_ptr<Reply> reply = handler_.Take();
  std::vector<admin::PlainConnection> others;
  others.push_back(Connect());  // says nothing
  auto& idle = others.emplace_back(Connect());
  idle.Send(Post("/echo", "x"));
  EXPECT_THAT(idle.Read(), EndsWith("\r\n\r\nx"));
  others.emplace_back(Connect()).Send("GET / HT");
  for (size_t i = 0; i < 20; ++i) {
    auto& newcomer = others.emplace_back(Connect());
    newcomer.Send(Post("/echo", "new"));
    ASSERT_THAT(newcomer.Read(), EndsWith("\r\n\r\nnew"));
    // Who stopped in a head may have been read after the one that is idle.
    if (i == 1) continue;
    EXPECT_EQ(others[i].ReadToEnd(), "");
  }
  reply->Respond({.body = "the end"});
  EXPECT_THAT(answered.ReadToEnd(), EndsWith("\r\n\r\nthe end")) << "who has asked keeps its place";
}

TEST_F(PortTest, RefusesConnectionsBeyondItsLimit) {
  PortOptions options;
  options.max_connections = 2;
  Serve(options);
  const size_t before = Sockets();
  auto first = Connect();
  auto second = Connect();
  first.Send(Get("/stream"));
  const std::shared_ptr<Reply> of_first = handler_.Take();
  second.Send(Get("/stream"));
  const std::shared_ptr<Reply> of_second = handler_.Take();
  auto third = Connect();
  third.Send(Get("/echo"));
  EXPECT_EQ(third.ReadToEnd(), "");
  { const auto gone = std::move(first); }
  { const auto gone = std::move(second); }
  { const auto gone = std::move(third); }
  EXPECT_TRUE(WaitUntil([&] { return Sockets() == before; }))
      << "something leaks: " << Sockets() << " after " << before;
}

TEST_F(PortTest, TellsWhetherItAdmitsConnections) {
  PortOptions options;
  options.max_connections = 1;
  options.ask_every = absl::Milliseconds(20);
  Serve(options);
  auto client = Connect();
  client.Send(Get("/stream"));
  const std::shared_ptr<Reply> reply = handler_.Take();
  EXPECT_TRUE(WaitUntil([&] { return !port_->admits(); }));
  reply->Respond({.body = "x"});
  EXPECT_THAT(client.Read(), EndsWith("\r\n\r\nx"));
  EXPECT_TRUE(WaitUntil([&] { return port_->admits(); })) << "it waits now, and would give way";
}

TEST_F(PortTest, DrainsWithTheAnswersThatRun) {
  Serve();
  auto idle = Connect();
  idle.Send(Post("/echo", "x"));
  auto client = Connect();
  client.Send(Get("/stream"));
  const std::shared_ptr<Reply> reply = handler_.Take();
  port_->Refuse();
  EXPECT_THAT(idle.ReadToEnd(), EndsWith("\r\n\r\nx"));
  EXPECT_TRUE(WaitUntil([&] { return !Connect().connected(); })) << "it listens no more";
  std::thread drain([&] { port_->Drain(absl::Seconds(60)); });
  reply->Respond({.body = "the end"});
  EXPECT_THAT(client.ReadToEnd(), EndsWith("\r\n\r\nthe end"));
  { const auto gone = std::move(client); }
  drain.join();
}

TEST_F(PortTest, CutsWhatIsLeftAfterTheGrace) {
  Serve();
  auto client = Connect();
  client.Send(Get("/stream"));
  const std::shared_ptr<Reply> reply = handler_.Take();
  const auto listener = std::make_shared<CountingListener>();
  reply->Listen(listener);
  port_->Drain(absl::Milliseconds(50));
  EXPECT_TRUE(listener->over);
  EXPECT_EQ(client.ReadToEnd(), "");
}

}  // namespace
}  // namespace tandem::http
