#include "orchestrator/log/request_log.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/log.h"
#include "common/concurrency/instant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/request/internal_reason.h"
#include "orchestrator/request/without_content.h"

namespace tandem::orchestrator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(WithoutContent, TakesOutNumbersAndQuotedText) {
  EXPECT_EQ(WithoutContent("ids.ids[3] is 70000; it must be below the vocabulary size, 4096"),
            "ids.ids[#] is #; it must be below the vocabulary size, #");
  EXPECT_EQ(WithoutContent("output_prefix_ids: the text ends at index 12 (id 7): nothing"),
            "output_prefix_ids: the text ends at index # (id #): nothing");
  EXPECT_EQ(WithoutContent("ids 1,2,3"), "ids #,#,#");
  EXPECT_EQ(WithoutContent("token 5: bad. 6. 7"), "token #: bad. #. #");
  EXPECT_EQ(WithoutContent("17"), "#");
  EXPECT_EQ(WithoutContent("drafter is \"my secret \"text\" 5\"; it must be"),
            "drafter is \"…\"; it must be");
  EXPECT_EQ(WithoutContent("not closed \"secret"), "not closed \"…\"");
  EXPECT_EQ(WithoutContent(""), "");
}

TEST(WithoutContent, LeavesAddressesAndDurations) {
  for (const char* text : {"the stream to target 10.0.0.1:50051 ended: UNAVAILABLE",
                           "no verdict of [::1]:50 within 1.5s", "target-0.target:50 is gone",
                           "temperature is 0.75", "sha256:12ab", "30s of 5m0.5s"}) {
    EXPECT_EQ(WithoutContent(text), text);
  }
}

GenerationRequest Request() {
  GenerationRequest request;
  request.id = "00ff";
  request.prompt = {70001, 70002, 70003};
  request.output_prefix = {70004};
  request.rule = acceptance::Rule::kCoupled;
  request.samples = 2;
  return request;
}

Ending EndingOf(Finish finish) {
  Ending ending;
  ending.finish = finish;
  ending.stop_string = "secret";
  ending.output_tokens = 6;
  ending.counts.rounds = 3;
  ending.counts.draft_tokens = 8;
  ending.counts.accepted_tokens = 3;
  ending.counts.rejected_rounds = 1;
  ending.counts.target_replays = 1;
  ending.times.first_token = absl::Milliseconds(40);
  ending.times.admission = absl::Milliseconds(5);
  ending.times.stages = {absl::Milliseconds(1), absl::Milliseconds(2), absl::Milliseconds(3),
                         absl::Milliseconds(4), absl::Milliseconds(5), absl::Microseconds(600)};
  return ending;
}

TEST(RequestLog, OneThatEndedWell) {
  const GenerationRequest request = Request();
  const std::vector<Ending> endings = {EndingOf(Finish::kStop), EndingOf(Finish::kLength)};
  const RequestEnd end{concurrency::Instant(absl::Seconds(10)),
                       concurrency::Instant(absl::Milliseconds(10'250)),
                       absl::OkStatus(),
                       "4bf9",
                       &request,
                       endings};
  EXPECT_EQ(RequestLine(end).text(),
            "request id=00ff trace=4bf9 status=OK finish=stop prompt_tokens=3 output_tokens=10 "
            "samples=2 rounds=6 draft_tokens=16 accepted_tokens=6 alpha_hat=0.75 total_ms=250 "
            "first_token_ms=40 admission_ms=5 draft_ms=2 network_ms=4 queue_ms=8 device_ms=10 "
            "own_ms=1.2 slot_ms=6 replays=2 reconnections=0 rule=coupled");
}

TEST(RequestLog, OneThatFailedOnItsWay) {
  const GenerationRequest request = Request();
  const std::vector<Ending> endings = {EndingOf(Finish::kLength)};
  const RequestEnd end{concurrency::Instant(),
                       concurrency::Instant(absl::Milliseconds(9)),
                       absl::InternalError("entry 1 has next token 70009"),
                       "",
                       &request,
                       endings};
  const std::string line = RequestLine(end).text();
  EXPECT_THAT(line, HasSubstr(" trace=\"\" status=INTERNAL prompt_tokens=3 output_tokens=5 "));
  EXPECT_THAT(line, EndsWith(" rule=coupled message=\"entry # has next token #\""));
}

TEST(RequestLog, SaysWhatTheCallerIsNotTold) {
  const absl::Status told = NoTargetReady(absl::UnavailableError("10.0.0.7:50051: refused"));
  EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(told.message(), "no target is ready; the orchestrator's log says why");
  EXPECT_THAT(RequestLine({{}, {}, told, "", nullptr, {}}).text(),
              EndsWith("the orchestrator's log says why: 10.0.0.7:50051: refused\""));
  EXPECT_EQ(NoTargetReady(absl::FailedPreconditionError("10.0.0.7 has another model")).message(),
            "no target fits this orchestrator; its log says why");
}

TEST(RequestLog, OnesThatNeverRan) {
  const absl::Status full = absl::ResourceExhaustedError("the line is full");
  EXPECT_EQ(
      RequestLine({{}, concurrency::Instant(absl::Microseconds(100)), full, "4bf9", nullptr, {}})
          .text(),
      "request id=\"\" trace=4bf9 status=RESOURCE_EXHAUSTED total_ms=0.1 "
      "message=\"the line is full\"");
  EXPECT_THAT(RequestLine({{}, {}, full, "", nullptr, {}}, "of-the-header").text(),
              StartsWith("request id=of-the-header "));
  const GenerationRequest request = Request();
  EXPECT_EQ(
      RequestLine({{}, concurrency::Instant(absl::Milliseconds(1)), full, "", &request, {}}).text(),
      "request id=00ff trace=\"\" status=RESOURCE_EXHAUSTED prompt_tokens=3 total_ms=1 "
      "rule=coupled message=\"the line is full\"");
}

TEST(RequestLog, TheClientsWords) {
  GenerationRequest request = Request();
  request.user = "one \"user\"\n";
  request.ignored = {"GenerateRequest.1003", "StopRules.1000"};
  const RequestEnd end{{}, {}, absl::UnavailableError("leaving"), "", &request, {}};
  EXPECT_THAT(RequestLine(end, "of-the-header").text(),
              AllOf(StartsWith("request id=00ff "),
                    EndsWith(" rule=coupled user=\"one \\\"user\\\"\\n\" "
                             "ignored=GenerateRequest.1003,StopRules.1000 message=leaving")));
}

TEST(RequestLog, AWarningOnlyWhereTheClientHasNoPart) {
  std::vector<base::LogLevel> levels;
  base::ScopedLogSink sink([&](const base::LogEntry& entry) { levels.push_back(entry.level); });
  for (const absl::Status& status : {absl::OkStatus(), absl::CancelledError(""),
                                     absl::NotFoundError(""), absl::UnavailableError("")}) {
    LogRequests()({concurrency::Instant(), ""})->OnEnded({{}, {}, status, "", nullptr, {}});
  }
  EXPECT_THAT(levels, ElementsAre(base::LogLevel::kInfo, base::LogLevel::kInfo,
                                  base::LogLevel::kInfo, base::LogLevel::kWarning));
}

}  // namespace
}  // namespace tandem::orchestrator
