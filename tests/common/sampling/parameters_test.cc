#include "common/sampling/parameters.h"

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/sampling/distribution.h"
#include "common/sampling/token_history.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::sampling::parameters_test {
namespace {

using ::testing::StartsWith;

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

// The parameter's name comes first: services take the name of the field from it.
void ExpectRefused(const SamplingParameters& parameters, const std::string& why,
                   uint32_t vocabulary_size = 0) {
  const absl::Status status = Validate(parameters, vocabulary_size);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
  EXPECT_THAT(std::string(status.message()), StartsWith(why));
}

std::vector<uint32_t> Ids(size_t count) {
  std::vector<uint32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(ValidateTest, Lists) {
  EXPECT_TRUE(
      Validate({.banned = Ids(kMaxListedTokens), .stop_token_ids = Ids(kMaxEndTokens)}).ok());
  ExpectRefused({.stop_token_ids = Ids(kMaxEndTokens + 1)},
                "stop_token_ids has 129 entries; at most 128");
  ExpectRefused({.bias = std::vector<TokenBias>(kMaxListedTokens + 1)},
                "logit_bias has 16385 entries");
  ExpectRefused({.banned = {3, 8}},
                "banned_token_ids[1] is 8; it must be below the vocabulary size, 8", 8);
  ExpectRefused({.allowed = {9}}, "allowed_token_ids[0] is 9", 8);
  ExpectRefused({.stop_token_ids = {1, 2, 0xffff'ffff}}, "stop_token_ids[2] is 4294967295", 8);
  ExpectRefused({.bias = {{8, 1}}}, "logit_bias[0].token is 8; it must be below", 8);
  EXPECT_TRUE(Validate({.bias = {{8, 1}}, .banned = {9}}).ok());  // no vocabulary known
  for (double bias : {-100.1, 100.1, kNan, kInfinity, -kInfinity}) {
    ExpectRefused({.bias = {{1, 0}, {2, bias}}},
                  absl::StrCat("logit_bias[1].bias is ", bias, "; it must be from -100 to 100"));
  }
  EXPECT_TRUE(Validate({.bias = {{1, -100}, {2, 100}}}).ok());
  ExpectRefused({.bias = {{1, 0}, {2, 1}, {1, 3}}}, "logit_bias[2].token is 1, which has a bias");
}

TEST(ValidateTest, SomethingMustBeLeft) {
  EXPECT_TRUE(Validate({.banned = {1, 2}, .allowed = {1, 2, 3}}).ok());
  ExpectRefused({.banned = {1, 2, 3}, .allowed = {3, 1}}, "banned_token_ids leaves no token");
  ExpectRefused({.banned = {0, 1, 2}}, "banned_token_ids leaves no token", 3);
  EXPECT_TRUE(Validate({.banned = {0, 1, 2}}, 4).ok());
  const std::string ends = "min_tokens is 5, but only tokens that end the text may come";
  ExpectRefused({.allowed = {3, 4}, .min_tokens = 5, .stop_token_ids = {4, 3}}, ends);
  ExpectRefused({.banned = {0, 1}, .min_tokens = 5, .stop_token_ids = {2, 3}}, ends, 4);
  EXPECT_TRUE(Validate({.allowed = {3, 4}, .stop_token_ids = {4, 3}}).ok());
  EXPECT_TRUE(Validate({.allowed = {3, 4}, .min_tokens = 5, .stop_token_ids = {4}}).ok());
}

// Of all that Validate lets through, MakeDistribution makes a distribution.
TEST(ValidateTest, WhatIsValidLeavesADistribution) {
  const std::vector<float> logits = {3, -2, 0.5f, 1};
  TokenHistory history(1);
  history.Append(std::vector<uint32_t>{0, 1, 2, 3, 3, 3});
  int valid = 0;
  for (uint32_t choice = 0; choice < 1u << 12; ++choice) {
    SamplingParameters parameters;
    if (choice & 1) parameters.repetition_penalty = std::numeric_limits<double>::denorm_min();
    if (choice & 2) parameters.frequency_penalty = 2;
    if (choice & 4) parameters.bias = {{0, -100}, {3, 100}};
    if (choice & 8) parameters.banned = {0, 1};
    if (choice & 16) parameters.banned.push_back(2);
    if (choice & 32) parameters.allowed = {1, 2};
    if (choice & 64) parameters.allowed.push_back(3);
    if (choice & 128) parameters.min_tokens = 9;
    if (choice & 256) parameters.stop_token_ids = {2, 3};
    if (choice & 512) parameters.min_p = 1;
    if (choice & 1024) parameters.top_p = std::numeric_limits<double>::denorm_min();
    if (choice & 2048) parameters.temperature = std::numeric_limits<double>::denorm_min();
    if (!Validate(parameters, 4).ok()) continue;
    ++valid;
    EXPECT_FALSE(MakeDistribution(logits, 4, parameters, history).ids.empty()) << choice;
  }
  EXPECT_GT(valid, 2000);
}

}  // namespace
}  // namespace tandem::sampling::parameters_test
