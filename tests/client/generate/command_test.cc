// `tandem generate` as a process, against a service of the test's own that plays out a script.
#include <grpcpp/grpcpp.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "common/telemetry/span_context.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/client/example_rounds.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"

namespace tandem::client {
namespace {

using base::JsonValue;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Traces what comes with a traceparent. By the prompt. "whole": everything that was asked for;
// "lost": two tokens of each sample, then UNAVAILABLE; "refused": INVALID_ARGUMENT at once; "odd":
// a sample that nobody asked for.
class Script final : public v1::Generation::Service {
 public:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateReply>* writer) override {
    if (request->text() == "refused") {
      return {grpc::StatusCode::INVALID_ARGUMENT, "sampling.min_p is 7; it must be 0 to 1"};
    }
    v1::GenerateReply started;
    started.mutable_started()->set_rule(v1::RULE_COUPLED);
    started.mutable_started()->set_seed(42);
    const auto traceparent = context->client_metadata().find("traceparent");
    if (traceparent != context->client_metadata().end()) {
      const std::string header(traceparent->second.data(), traceparent->second.size());
      const auto parent = telemetry::ParseTraceparent(header);
      if (!parent.has_value()) return {grpc::StatusCode::INTERNAL, header};
      if (parent->sampled()) {
        started.mutable_started()->set_trace_id(telemetry::TraceIdHex(*parent));
      }
    }
    writer->Write(started);
    if (request->logprobs().prompt()) WritePrompt(*writer);
    const uint32_t samples = std::max(1u, request->samples());
    // One token of each, alternately, so that they come mixed.
    for (uint32_t token = 0; token < 2; ++token) {
      for (uint32_t sample = 0; sample < samples; ++sample) {
        WriteDelta(request->text() == "odd" ? 9 : sample, token, request->has_logprobs(), *writer);
      }
    }
    if (request->round_records()) WriteRound(*writer);
    if (request->text() == "lost") return {grpc::StatusCode::UNAVAILABLE, "going down"};
    WriteLast(samples, *writer);
    return grpc::Status::OK;
  }

 private:
  using Writer = grpc::ServerWriter<v1::GenerateReply>;

  static void WritePrompt(Writer& writer) {
    v1::GenerateReply reply;
    v1::PromptLogprobs& prompt = *reply.mutable_prompt_logprobs();
    prompt.set_first_position(1);
    prompt.add_token_ids(77);
    prompt.add_logprobs(-INFINITY);
    writer.Write(reply);
  }

  // Sample 1 writes "b0", then "b1", of ids 10 and 11.
  static void WriteDelta(uint32_t sample, uint32_t token, bool logprobs, Writer& writer) {
    v1::GenerateReply reply;
    v1::Delta& delta = *reply.mutable_delta();
    delta.set_sample_index(sample);
    delta.set_text(absl::StrCat(std::string(1, static_cast<char>('a' + sample)), token));
    delta.add_token_ids(10 * sample + token);
    if (logprobs) delta.add_logprobs(-1);
    writer.Write(reply);
  }

  static void WriteRound(Writer& writer) {
    v1::GenerateReply reply;
    *reply.mutable_round() = FiveRounds()[1];
    writer.Write(reply);
  }

  static void WriteLast(uint32_t samples, Writer& writer) {
    v1::GenerateReply reply;
    v1::Last& last = *reply.mutable_last();
    last.set_finish_reason(v1::FINISH_REASON_STOP);
    last.mutable_usage()->set_completion_tokens(2 * samples);
    last.mutable_speculation()->set_rule(v1::RULE_COUPLED);
    last.mutable_speculation()->set_exact(true);
    last.mutable_speculation()->set_rounds(1);
    for (uint32_t sample = 0; sample < samples; ++sample) {
      v1::SampleEnd& end = *last.add_samples();
      end.set_sample_index(sample);
      end.set_finish_reason(v1::FINISH_REASON_STOP);
    }
    writer.Write(reply);
  }
};

std::string Read(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

class GenerateCommandTest : public ::testing::Test {
 protected:
  GenerateCommandTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&script_);
    server_ = builder.BuildAndStart();
  }

  std::string File(const std::string& name) const {
    return absl::StrCat(::testing::TempDir(), "generate_command_", port_, "_", name);
  }

  Result Run(const std::string& flags) const { return Run(flags, File("out")); }

  // `flags`: without characters that mean something to a shell.
  Result Run(const std::string& flags, const std::string& out) const {
    const std::string command = absl::StrCat(tandem::testing::BinaryPath("tandem"),
                                             " generate --orchestrator=127.0.0.1:", port_, " ",
                                             flags, " >", out, " 2>", File("err"));
    Result result;
    const int status = std::system(command.c_str());
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.out = Read(File("out"));
    result.err = Read(File("err"));
    return result;
  }

  Script script_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::vector<JsonValue> Lines(const std::string& text) {
  std::vector<JsonValue> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    lines.push_back(tandem::testing::ParseJson(line));
  }
  return lines;
}

TEST_F(GenerateCommandTest, OneSampleIsTextAlone) {
  const Result result = Run("--prompt=whole");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "a0a1\n");
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("2 tokens (stop)"), HasSubstr("rule coupled, exact; seed 42"),
                    Not(HasSubstr("log probabilities"))));
}

TEST_F(GenerateCommandTest, JsonComesAsItComes) {
  const Result result =
      Run("--prompt=whole --samples=2 --logprobs=0 --prompt-logprobs --format=json");
  EXPECT_EQ(result.code, 0) << result.err;
  const std::vector<JsonValue> lines = Lines(result.out);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0]["prompt_logprobs"]["logprobs"].Dump(), "[null]");
  EXPECT_EQ(lines[1]["sample_index"].Number(), 0);
  EXPECT_EQ(lines[2]["sample_index"].Number(), 1);
  EXPECT_EQ(lines[2]["delta"].String(), "b0");
  EXPECT_EQ(lines[2]["logprobs"].Dump(), "[-1.0]");
  EXPECT_EQ(lines[5]["samples"][1]["text"].String(), "b0b1");
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(GenerateCommandTest, ALostConnectionTellsHowToResume) {
  const Result result =
      Run(absl::StrCat("--prompt=lost --output-prefix-ids=7,8 --record=", File("record")));
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "a0a1\n");
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("UNAVAILABLE: going down"),
                    HasSubstr("  --seed=42 --rule=coupled --output-prefix-ids=7,8,0,1\n"),
                    HasSubstr("the same tokens follow")));
  EXPECT_EQ(Lines(Read(File("record"))).back()["samples"][0]["output_prefix_ids"].Dump(),
            "[7,8,0,1]");
}

TEST_F(GenerateCommandTest, WhatNeverBeganHasNothingToResume) {
  const Result result = Run("--prompt=refused --format=json");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(Lines(result.out).back()["code"].String(), "INVALID_ARGUMENT");
  EXPECT_EQ(Lines(result.out).back()["refused"].Bool(), true);
  EXPECT_EQ(result.err, "error: --min-p is 7; it must be 0 to 1\n");
}

TEST_F(GenerateCommandTest, AServiceThatMakesNoSenseIsNotBelieved) {
  const Result result = Run("--prompt=odd");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("INTERNAL: the service sent sample 9; there are 1"));
}

TEST_F(GenerateCommandTest, ATimelineIsDrawnBesideTheText) {
  const Result result = Run("--prompt=whole --timeline --color=never");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "a0a1\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("2 tokens (stop)"), HasSubstr("\n\ntimeline: 1 round in"),
                                HasSubstr("slowest: network, 31 %"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(Run("--prompt=whole --timeline").err, Not(HasSubstr("\x1b")));  // to a file
  EXPECT_THAT(Run("--prompt=whole --timeline --color=always").err, HasSubstr("\x1b[38;5;214m"));
  EXPECT_THAT(Run("--prompt=whole").err, Not(HasSubstr("timeline")));
}

TEST_F(GenerateCommandTest, TheSpanThatItBelongsToIsSent) {
  const std::string context = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
  const Result sampled = Run(absl::StrCat("--prompt=whole --traceparent=00-", context, "-01"));
  EXPECT_THAT(sampled.err, HasSubstr("  trace 4bf92f3577b34da6a3ce929d0e0e4736\n"));
  const Result unsampled = Run(absl::StrCat("--prompt=whole --traceparent=00-", context, "-00"));
  EXPECT_EQ(unsampled.code, 0) << unsampled.err;
  EXPECT_THAT(unsampled.err, Not(HasSubstr("trace")));
}

TEST_F(GenerateCommandTest, EveryTraceIsAnother) {
  std::set<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    const Result result = Run("--prompt=whole --trace --format=json");
    ids.insert(Lines(result.out).back()["trace_id"].String().value());
  }
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_EQ(ids.begin()->size(), 32u);
}

TEST_F(GenerateCommandTest, WhatFailsShowsItsTraceAndRounds) {
  EXPECT_THAT(
      Run("--prompt=lost --trace --timeline").err,
      AllOf(HasSubstr("going down\n  trace "), HasSubstr("\ntimeline: 1 round in 16.0 ms")));
}

// The record is whole all the same.
TEST_F(GenerateCommandTest, TextThatCannotBeWrittenIsAnError) {
  for (const char* format : {"text", "json"}) {
    const Result result =
        Run(absl::StrCat("--prompt=whole --force --format=", format, " --record=", File("record")),
            "/dev/full");
    EXPECT_EQ(result.code, 1) << format;
    EXPECT_THAT(result.err, HasSubstr("error: DATA_LOSS: standard output cannot be written: "
                                      "No space left on device"));
    EXPECT_EQ(Lines(Read(File("record"))).back()["text"].String(), "a0a1");
  }
}

TEST_F(GenerateCommandTest, ARecordReplacesAFileOnlyWhereItIsForcedTo) {
  const std::string flags = absl::StrCat("--prompt=whole --record=", File("precious"));
  std::ofstream(File("precious")) << "precious";
  const Result refused = Run(flags);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.out, IsEmpty());
  EXPECT_THAT(refused.err, HasSubstr("precious already exists: give another name, or --force"));
  EXPECT_EQ(Read(File("precious")), "precious");
  EXPECT_EQ(Run(flags + " --force").code, 0);
  EXPECT_EQ(Lines(Read(File("precious"))).back()["text"].String(), "a0a1");
}

}  // namespace
}  // namespace tandem::client
