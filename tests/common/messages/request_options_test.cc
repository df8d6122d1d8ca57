// The table of a request's options: the range of each, what cannot go together, the names of each.
// The fronts' tests show that they are wired to it: tests/client/common/request_flags_test.cc,
// tests/orchestrator/openai/completion_request_test.cc, tests/orchestrator/generate.
#include "common/messages/request_options.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tandem::messages::request_options_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

v1::GenerateRequest Request(const std::string& text) {
  v1::GenerateRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return request;
}

v1::GenerateRequest With(const RequestOption& option, double value) {
  v1::GenerateRequest request;
  if (option.type() == OptionType::kReal) {
    SetOption(option, value, request);
  } else {
    SetOption(option, static_cast<uint64_t>(value), request);
  }
  return request;
}

// Each number at both ends of its range, just outside, and as no number at all.
TEST(RequestOptions, NumbersHaveTheirRanges) {
  struct Case {
    const char* path;
    const char* range;
    std::vector<double> good, bad;
  };
  const std::vector<Case> cases = {
      {"sampling.temperature", "0 to 100", {0, 0.5, 100}, {-0.01, 100.5}},
      {"sampling.top_k", "0 to 4294967295", {0, 40, UINT32_MAX}, {}},
      {"sampling.top_p", "above 0, to 1", {1e-6, 1}, {0, -1, 1.01}},
      {"sampling.min_p", "0 to 1", {0, 1}, {-0.01, 1.01}},
      {"sampling.repetition_penalty", "above 0, to 10", {1e-6, 10}, {0, 10.5}},
      {"sampling.presence_penalty", "-2 to 2", {-2, 2}, {-2.01, 2.01}},
      {"sampling.frequency_penalty", "-2 to 2", {-2, 2}, {-2.01, 2.01}},
      {"sampling.min_tokens", "0 to 4294967295", {0, UINT32_MAX}, {}},
      {"speculation.fixed", "0 to 16", {0, 16}, {17}},
      {"speculation.draft_nodes", "0 to 64", {0, 64}, {65}},
      {"speculation.draft_min_confidence", "0 to 1", {0, 0.3, 1}, {-0.01, 1.5}},
      {"speculation.prepare", "0 to 16", {0, 16}, {17}},
      {"speculation.draft_temperature", "0 to 100", {0, 100}, {-0.01, 100.5}},
      {"speculation.leniency", "above 0, to 1", {1e-6, 1}, {0, -1, 1.01}},
      {"max_tokens", "0 to 4294967295", {0, UINT32_MAX}, {}},
      {"samples", "0 to 16", {0, 16}, {17}},
      {"first_sample", "0 to 65535", {0, 65535}, {65536}},
      {"logprobs.top", "0 to 20", {0, 20}, {21}},
      {"priority", "0 to 10", {0, 10}, {11}},
      {"seed", "", {0, 7}, {}}};
  std::set<std::string> seen;
  for (const auto& [path, range, good, bad] : cases) {
    SCOPED_TRACE(path);
    seen.insert(path);
    const RequestOption& option = OptionAt(path);
    for (double value : good) EXPECT_EQ(CheckRanges(With(option, value)), absl::OkStatus());
    std::vector<double> wrong = bad;
    if (option.type() == OptionType::kReal) {
      wrong.insert(wrong.end(), {kNan, kInfinity, -kInfinity});
    }
    for (double value : wrong) {
      const double sent = static_cast<float>(value);
      EXPECT_EQ(CheckRanges(With(option, value)), absl::InvalidArgumentError(absl::StrCat(
                                                      path, " is ", sent, "; it must be ", range)));
    }
  }
  for (const RequestOption& option : RequestOptions()) {
    if (option.type() != OptionType::kReal && option.type() != OptionType::kWhole) continue;
    EXPECT_EQ(seen.count(std::string(option.path)), 1u) << option.path << " has no case here";
  }
}

TEST(RequestOptions, TextsAndListsHaveAMost) {
  const std::pair<const char*, size_t> most[] = {{"sampling.banned_token_ids", 16384},
                                                 {"sampling.allowed_token_ids", 16384},
                                                 {"stop.token_ids", 64},
                                                 {"output_prefix_ids", 1 << 20},
                                                 {"cache_scope", 64},
                                                 {"user", 256}};
  for (const auto& [path, size] : most) {
    const RequestOption& option = OptionAt(path);
    const bool is_text = option.type() == OptionType::kText;
    const auto with = [&](size_t count) {
      v1::GenerateRequest request;
      if (is_text) SetOption(option, std::string(count, 'x'), request);
      if (!is_text) SetOption(option, std::vector<uint32_t>(count), request);
      return CheckRanges(request);
    };
    EXPECT_EQ(with(size), absl::OkStatus());
    EXPECT_EQ(with(size + 1),
              absl::InvalidArgumentError(absl::StrCat(
                  path, " has ", size + 1, is_text ? " bytes" : " entries", "; at most ", size)));
  }
}

TEST(RequestOptions, ChoicesAreKnown) {
  const std::pair<const char*, std::vector<std::string>> known[] = {
      {"speculation.rule", {"greedy", "speculative", "block", "coupled", "lenient"}},
      {"speculation.proposal", {"sampled", "greedy"}},
      {"speculation.length_policy", {"auto", "heuristic"}}};
  for (const auto& [path, choices] : known) EXPECT_EQ(OptionAt(path).choices(), choices);
  v1::GenerateRequest request;
  SetOption(OptionAt("speculation.rule"), std::string("block"), request);
  EXPECT_EQ(request.speculation().rule(), v1::RULE_BLOCK);
  request.mutable_speculation()->set_rule(static_cast<v1::Rule>(9));
  EXPECT_EQ(CheckRanges(request).message(),
            "speculation.rule is 9, which is unknown; it must be 0 to 5");
}

// Of a part of a request, as the services get it.
TEST(RequestOptions, APartIsCheckedAsTheWholeIs) {
  v1::SamplingOptions sampling;
  sampling.set_top_p(2);
  EXPECT_EQ(CheckRanges(sampling, "sampling").message(),
            "sampling.top_p is 2; it must be above 0, to 1");
  EXPECT_EQ(RangeProblem(OptionAt("priority"), 11), "is 11; it must be 0 to 10");
  EXPECT_EQ(RangeProblem(OptionAt("cache_scope"), 65), "has 65 bytes; at most 64");
}

TEST(RequestOptions, WhatDoesNotGoTogether) {
  const std::string no_draft =
      ", but speculation.fixed is 0: there is no draft; leave one of them out";
  const std::pair<std::string, std::string> bad[] = {
      {"speculation { rule: RULE_LENIENT }",
       "speculation.leniency is missing: RULE_LENIENT needs it, above 0, to 1"},
      {"speculation { leniency: 0.5 }",
       "speculation.leniency is 0.5, but speculation.rule is not RULE_LENIENT: leave it out, or "
       "take "
       "that rule"},
      {"speculation { length_policy: LENGTH_POLICY_AUTO fixed: 4 }",
       "speculation.length_policy is LENGTH_POLICY_AUTO, but speculation.fixed is 4: leave one of "
       "them out"},
      {"speculation { auto: false }",
       "speculation.auto is false; give speculation.fixed, 0 for no draft"},
      {"speculation { drafter: 'model' drafters: 'mixed' }",
       "speculation.drafter is \"model\", and speculation.drafters is given too: leave one of them "
       "out"},
      {"speculation { fixed: 0 draft_temperature: 0.5 }",
       "speculation.draft_temperature is 0.5" + no_draft},
      {"speculation { fixed: 0 draft_nodes: 8 }", "speculation.draft_nodes is 8" + no_draft},
      {"speculation { fixed: 0 draft_min_confidence: 0.25 }",
       "speculation.draft_min_confidence is 0.25" + no_draft},
      {"speculation { draft_nodes: 8 draft_min_confidence: 0.25 }",
       "speculation.draft_min_confidence is 0.25, and speculation.draft_nodes is 8: it ends "
       "chains; "
       "leave one of them out"},
      {"speculation { fixed: 0 prepare: 4 }", "speculation.prepare is 4" + no_draft},
      {"speculation { draft_nodes: 8 prepare: 4 }",
       "speculation.prepare is 4, and speculation.draft_nodes is 8: chains alone are prepared; "
       "leave one of them out"},
      {"speculation { draft_min_confidence: 0.25 prepare: 4 }",
       "speculation.prepare is 4, and speculation.draft_min_confidence is 0.25: prepared blocks "
       "have a fixed length; leave one of them out"},
      {"stop { strings: ['a', ''] }", "stop.strings[1] has 0 bytes; it must have 1 to 1024"},
      {"stop { strings: '" + std::string(1025, 'x') + "' }",
       "stop.strings[0] has 1025 bytes; it must have 1 to 1024"},
      {"stop { strings: ['1','2','3','4','5','6','7','8','9','0','1','2','3','4','5','6','7'] }",
       "stop.strings has 17 strings; at most 16"},
      {"samples: 2 first_sample: 65535",
       "first_sample is 65535; with samples 2 it must be 0 to 65534"},
      {"samples: 2 output_prefix_ids: 1",
       "output_prefix_ids has 1 ids with samples 2; it resumes one text: ask for each sample by "
       "itself, with samples 1 and its own first_sample"}};
  for (const auto& [request, message] : bad) {
    EXPECT_EQ(CheckOptions(Request(request)), absl::InvalidArgumentError(message));
  }
  for (const char* good :
       {"", "speculation { fixed: 0 draft_nodes: 0 draft_min_confidence: 0 }",
        "speculation { rule: RULE_LENIENT leniency: 1 auto: true draft_temperature: 0 }",
        "samples: 16 first_sample: 65520", "samples: 1 output_prefix_ids: 1"}) {
    EXPECT_EQ(CheckOptions(Request(good)), absl::OkStatus()) << good;
  }
}

TEST(RequestOptions, ErrorsAreToldInTheWordsOfAFront) {
  const auto flag = [](const RequestOption& option) { return absl::StrCat("--", option.flag); };
  const auto json = [](const RequestOption& option) { return std::string(option.json); };
  EXPECT_EQ(InWordsOf("speculation.draft_nodes is 4, but speculation.fixed is 0: there", flag),
            "--draft-nodes is 4, but --draft-tokens is 0: there");
  EXPECT_EQ(InWordsOf("sampling.min_tokens is 2; it must be 0 to max_tokens, 1.", json),
            "min_tokens is 2; it must be 0 to max_tokens, 1.");
  EXPECT_EQ(InWordsOf("first_sample is 9; with samples 2 it", json),
            "tandem.first_sample is 9; with n 2 it");
  EXPECT_EQ(InWordsOf("samples is 17: each of the samples", json), "n is 17: each of the samples");
  EXPECT_EQ(InWordsOf("sampling.logit_bias[2].token is 1", json), "logit_bias[2].token is 1");
  EXPECT_EQ(InWordsOf("speculation.rule is RULE_GREEDY at 1, LENGTH_POLICY_AUTO", flag),
            "--rule is greedy at 1, auto");
  EXPECT_EQ(InWordsOf("the model says nothing.", flag), "the model says nothing.");
}

}  // namespace
}  // namespace tandem::messages::request_options_test
