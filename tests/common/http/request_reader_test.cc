// Requests out of bytes: whole, in pieces, one behind the other, and those that are none.
#include "common/http/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tandem::http {
namespace {

using ::testing::HasSubstr;
using State = RequestReader::State;

constexpr ReaderLimits kLimits = {.max_head_bytes = 512, .max_headers = 8, .max_body_bytes = 64};

std::string Head(absl::string_view more = "", absl::string_view line = "POST /x HTTP/1.1") {
  return absl::StrCat(line, "\r\nHost: here\r\n", more, "\r\n");
}

// Feeds all of it, `step` bytes at a time. Returns what was left over.
std::string Feed(RequestReader& reader, const std::string& bytes, size_t step = 1000) {
  std::string waiting;
  for (size_t at = 0; at < bytes.size(); at += step) {
    waiting += bytes.substr(at, step);
    waiting.erase(0, reader.Read(waiting));
    if (reader.state() == State::kHeadRead) {
      reader.Accept();
      waiting.erase(0, reader.Read(waiting));
    }
  }
  return waiting;
}

int Refused(const std::string& bytes) {
  RequestReader reader(kLimits);
  Feed(reader, bytes);
  return reader.state() == State::kRefused ? reader.refused_code() : 0;
}

TEST(RequestReader, DecodesEscapesOfThePathOnce) {
  const auto path = [](absl::string_view target) {
    RequestReader reader(kLimits);
    Feed(reader, Head("", absl::StrCat("GET ", target, " HTTP/1.1")));
    return reader.state() == State::kComplete ? reader.request().path : "refused";
  };
  EXPECT_EQ(path("/v1/models/OWNER%2FNAME"), "/v1/models/OWNER/NAME");
  EXPECT_EQ(path("/%2f%41%e2%82%ac"), "//A\u20ac");
  EXPECT_EQ(path("/a%252Fb"), "/a%2Fb") << "once";
  EXPECT_EQ(path("/a+b?c=%zz"), "/a+b") << "a plus is a plus, and queries are left alone";
  EXPECT_EQ(path("/a%3Fb%23c"), "/a?b#c");
  EXPECT_EQ(path("http://here/a%2Fb"), "/a/b");
  for (const char* target : {"/%", "/a%2", "/%2", "/%g0", "/%0g", "/%-1", "/%%41", "/a%?"}) {
    EXPECT_EQ(Refused(Head("", absl::StrCat("GET ", target, " HTTP/1.1"))), 400) << target;
  }
}

TEST(RequestReader, NamesTheHeaderOfACodingThatIsNotServed) {
  for (const char* coding :
       {"gzip", "GZIP", "br", "identity, deflate", "identity\r\nContent-Encoding: zstd"}) {
    for (const char* framing : {"Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"}) {
      RequestReader reader(kLimits);
      Feed(reader, Head(absl::StrCat("Content-Encoding: ", coding, "\r\n", framing)));
      EXPECT_EQ(reader.refused_code(), 415) << coding;
      EXPECT_THAT(reader.refused_reason(), HasSubstr("Content-Encoding"));
    }
  }
  EXPECT_EQ(Refused(Head("Content-Encoding: gzip\r\n")), 0) << "there is no body";
  EXPECT_EQ(Refused(Head("Content-Encoding: Identity, identity\r\nContent-Length: 1\r\n") + "x"),
            0);
  EXPECT_EQ(Refused(Head("Content-Encoding:\r\nContent-Length: 1\r\n") + "x"), 0);
}

TEST(RequestReader, ReadsARequestHoweverItIsCut) {
  const std::string bytes =
      Head("Content-Length: 5\r\nX-More: a b\r\n", "POST /v1/a%20b?x=1&y HTTP/1.1") + "hello";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    RequestReader reader(kLimits);
    EXPECT_EQ(Feed(reader, bytes, step), "");
    ASSERT_EQ(reader.state(), State::kComplete) << step;
    const Request& request = reader.request();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/a b");
    EXPECT_EQ(request.query, "x=1&y");
    EXPECT_EQ(request.Value("x-more"), "a b");
    EXPECT_EQ(request.body, "hello");
    EXPECT_TRUE(reader.keep_alive());
  }
}

TEST(RequestReader, ReadsChunks) {
  const std::string bytes =
      Head("Transfer-Encoding: chunked\r\n") +
      "5\r\nhello\r\n1;name=value\r\n \r\nA\r\n0123456789\r\n0\r\nTail: x\r\n\r\n";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    RequestReader reader(kLimits);
    EXPECT_EQ(Feed(reader, bytes, step), "");
    ASSERT_EQ(reader.state(), State::kComplete) << step << " " << reader.refused_reason();
    EXPECT_EQ(reader.request().body, "hello 0123456789");
  }
}

TEST(RequestReader, LeavesTheNextRequestAlone) {
  const std::string next = Head("", "GET /b HTTP/1.1");
  RequestReader sized(kLimits);
  EXPECT_EQ(Feed(sized, Head("Content-Length: 2\r\n") + "ab" + next), next);
  EXPECT_EQ(sized.request().body, "ab");
  RequestReader chunked(kLimits);
  EXPECT_EQ(Feed(chunked, Head("Transfer-Encoding: chunked\r\n") + "0\r\n\r\n" + next), next);
  RequestReader none(kLimits);
  EXPECT_EQ(Feed(none, next + next), next);
}

TEST(RequestReader, WaitsAfterTheHeadUntilItIsAccepted) {
  RequestReader reader(kLimits);
  const std::string bytes = Head("Content-Length: 1\r\n") + "x";
  EXPECT_EQ(reader.Read(bytes), bytes.size() - 1);
  EXPECT_EQ(reader.state(), State::kHeadRead);
  EXPECT_EQ(reader.Read("x"), 0u);
  reader.Accept();
  EXPECT_EQ(reader.Read("x"), 1u);
  EXPECT_EQ(reader.state(), State::kComplete);
}

TEST(RequestReader, KnowsWhatTheClientWantsOfTheConnection) {
  const auto read = [](const std::string& bytes) {
    RequestReader reader(kLimits);
    Feed(reader, bytes);
    EXPECT_EQ(reader.state(), State::kComplete);
    return std::pair(reader.keep_alive(), reader.expects_continue());
  };
  EXPECT_EQ(read(Head()), std::pair(true, false));
  EXPECT_EQ(read(Head("Connection: x, Close\r\n")), std::pair(false, false));
  EXPECT_EQ(read(Head("Connection: keep-alive\r\n", "GET / HTTP/1.0")), std::pair(false, false));
  EXPECT_EQ(read("GET / HTTP/1.0\r\n\r\n"), std::pair(false, false));
  EXPECT_EQ(read(Head("Expect: 100-Continue\r\n")), std::pair(true, true));
}

TEST(RequestReader, TakesAnAddressAsAProxySendsIt) {
  RequestReader reader(kLimits);
  Feed(reader, Head("", "GET http://here:80/a?b HTTP/1.1"));
  EXPECT_EQ(reader.request().path, "/a");
  EXPECT_EQ(reader.request().query, "b");
}

TEST(RequestReader, RefusesWhatIsNoRequest) {
  EXPECT_EQ(Refused("\r\n" + Head()), 0) << "one empty line before it is none of it";
  EXPECT_EQ(Refused("\r\n\r\n" + Head()), 400);
  EXPECT_EQ(Refused("GET / HTTP/1.1\nHost: x\n\n"), 400) << "lines end with CR LF";
  EXPECT_EQ(Refused(Head("", "GET /")), 400);
  EXPECT_EQ(Refused(Head("", "GET  / HTTP/1.1")), 400);
  EXPECT_EQ(Refused(Head("", "GET / HTTP/1.1 ")), 400);
  EXPECT_EQ(Refused(Head("", "G@T / HTTP/1.1")), 400);
  EXPECT_EQ(Refused(Head("", "GET x HTTP/1.1")), 400);
  EXPECT_EQ(Refused(Head("", "GET /\x01 HTTP/1.1")), 400);
  EXPECT_EQ(Refused(Head("", "GET / http/1.1")), 400);
  EXPECT_EQ(Refused(Head("", "GET / HTTP/2.0")), 505);
  EXPECT_EQ(Refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(Refused("\x16\x03\x01\x02\n"), 400) << "TLS, where plaintext is spoken";
  EXPECT_EQ(Refused("GET / HTTP/1.1\r\n\r\n"), 400) << "no Host";
  EXPECT_EQ(Refused(Head("Host: there\r\n")), 400);
  EXPECT_EQ(Refused(Head(" folded\r\n")), 400);
  EXPECT_EQ(Refused(Head("Name : x\r\n")), 400);
  EXPECT_EQ(Refused(Head("no colon\r\n")), 400);
  EXPECT_EQ(Refused(Head(std::string("A: \0x\r\n", 7))), 400);
  EXPECT_EQ(Refused(Head("Expect: more\r\n")), 417);
}

TEST(RequestReader, RefusesLengthsThatCouldBeReadInTwoWays) {
  EXPECT_EQ(Refused(Head("Content-Length: 1\r\nContent-Length: 1\r\n")), 400);
  EXPECT_EQ(Refused(Head("Content-Length: 1, 1\r\n")), 400);
  EXPECT_EQ(Refused(Head("Content-Length: +1\r\n")), 400);
  EXPECT_EQ(Refused(Head("Content-Length: 0x1\r\n")), 400);
  EXPECT_EQ(Refused(Head("Content-Length: \r\n")), 400);
  EXPECT_EQ(Refused(Head("Content-Length: 99999999999999999999\r\n")), 400);
  EXPECT_EQ(Refused(Head("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")), 400);
  EXPECT_EQ(Refused(Head("Transfer-Encoding: gzip, chunked\r\n")), 501);
  EXPECT_EQ(Refused(Head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")), 501);
  EXPECT_EQ(Refused(Head("Transfer-Encoding: chunked\r\n", "POST / HTTP/1.0")), 400);
  const std::string chunked = Head("Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(Refused(chunked + "\r\n"), 400);
  EXPECT_EQ(Refused(chunked + "-1\r\n"), 400);
  EXPECT_EQ(Refused(chunked + "0x1\r\nx\r\n"), 400);
  EXPECT_EQ(Refused(chunked + "1 1\r\nx\r\n"), 400);
  EXPECT_EQ(Refused(chunked + "1\r\nxy\r\n"), 400);
  EXPECT_EQ(Refused(chunked + "1\nx\r\n"), 400);
  EXPECT_EQ(Refused(chunked + "000000001\r\nx\r\n"), 400);
  EXPECT_EQ(Refused(chunked + "0\r\nno colon\r\n\r\n"), 400);
}

TEST(RequestReader, RefusesWhatIsTooMuch) {
  EXPECT_EQ(Refused(Head(absl::StrCat("A: ", std::string(600, 'x'), "\r\n"))), 431);
  EXPECT_EQ(Refused("GET /" + std::string(600, 'x')), 431) << "also without an end of the line";
  std::string many;
  for (int i = 0; i < 8; ++i) many += "A: b\r\n";
  EXPECT_EQ(Refused(Head(many)), 431);
  EXPECT_EQ(Refused(Head("Content-Length: 65\r\n")), 413);
  const std::string chunked = Head("Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(Refused(chunked + "41\r\n"), 413);
  EXPECT_EQ(Refused(chunked + "40\r\n" + std::string(64, 'x') + "\r\n1\r\n"), 413);
  EXPECT_EQ(Refused(chunked + "1;" + std::string(300, 'x')), 400);
  std::string trailers = "0\r\n";
  for (int i = 0; i < 200; ++i) trailers += "A: b\r\n";
  EXPECT_EQ(Refused(chunked + trailers), 400);
}

TEST(RequestReader, ExtensionsOfChunksAndTrailersHaveOneBound) {
  const std::string head = Head("Transfer-Encoding: chunked\r\n");
  const std::string extended = absl::StrCat("1;", std::string(107, 'x'), "\r\nx\r\n");
  const std::string plain = "00000001\r\nx\r\n";
  const auto repeat = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  RequestReader reader(kLimits);
  Feed(reader, head + repeat(extended, 5) + repeat(plain, 59) + "0\r\n\r\n");
  EXPECT_EQ(reader.state(), State::kComplete) << reader.refused_reason();
  EXPECT_EQ(Refused(head + repeat(extended, 6)), 400);
  EXPECT_EQ(Refused(head + repeat(absl::StrCat("1", std::string(107, ' '), "\r\nx\r\n"), 6)), 400);
  EXPECT_EQ(Refused(head + repeat(extended, 4) + "0\r\nTail: " + std::string(200, 'x') + "\r\n"),
            400);
}

TEST(RequestReader, ShowsNothingOfWhatWasSent) {
  RequestReader reader(kLimits);
  Feed(reader, Head("secret-name\r\n"));
  ASSERT_EQ(reader.state(), State::kRefused);
  EXPECT_THAT(reader.refused_reason(), ::testing::Not(HasSubstr("secret")));
}

// Requests with bytes changed, taken out, doubled and cut at random: read, refused or waited for,
// within the limits, and the same however they are cut.
TEST(RequestReader, HoldsItsLimitsWhateverComes) {
  const std::vector<std::string> seeds = {
      Head("Content-Length: 5\r\nConnection: close\r\n") + "hello",
      Head("Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\nTail: x\r\n\r\n",
      Head("Expect: 100-continue\r\nContent-Length: 1\r\n") + "x" + Head(),
      "GET http://h/p?q HTTP/1.0\r\n\r\n",
  };
  constexpr absl::string_view kBytes = "\r\n :;0159aF,-\t\x80\xff/";
  std::mt19937 random(20);
  const auto below = [&random](size_t end) { return random() % std::max<size_t>(end, 1); };
  for (int i = 0; i < 40000; ++i) {
    std::string bytes = seeds[below(seeds.size())];
    for (size_t changes = below(4); changes > 0; --changes) {
      const size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
          if (!bytes.empty()) bytes[at] = kBytes[below(kBytes.size())];
          break;
        case 1:
          bytes.insert(at, 1 + below(3), kBytes[below(kBytes.size())]);
          break;
        case 2:
          bytes.erase(at, 1 + below(5));
          break;
        default:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(40)));
          break;
      }
    }
    RequestReader whole(kLimits);
    const std::string rest = Feed(whole, bytes);
    RequestReader cut(kLimits);
    const std::string cut_rest = Feed(cut, bytes, 1 + below(7));
    ASSERT_EQ(whole.state(), cut.state()) << bytes;
    if (whole.state() == State::kRefused) {
      ASSERT_EQ(whole.refused_code(), cut.refused_code()) << bytes;
      continue;
    }
    ASSERT_EQ(rest, cut_rest) << bytes;
    ASSERT_EQ(whole.request().body, cut.request().body);
    ASSERT_LE(whole.request().body.size(), kLimits.max_body_bytes);
    ASSERT_LE(whole.request().headers.size(), kLimits.max_headers);
  }
}

}  // namespace
}  // namespace tandem::http
