// What LibTorch's step does not compute is refused by name, and only that.
#include "torch/spec_check.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/support.h"

namespace tandem::torch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SpecCheckTest, EveryFamilyIsTaken) {
  for (const std::string& variant : model::testing::GoldenVariants()) {
    const auto config = model::ReadConfig(model::testing::GoldenDirectory(variant));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_TRUE(CheckSpec(config->spec).ok()) << variant << ": " << CheckSpec(config->spec);
  }
}

TEST(SpecCheckTest, AFieldThatTheStepDoesNotReadIsNamed) {
  model::DecoderSpec spec;
  spec.head_size = 8;
  spec.qk_norm = model::QkNorm::kHead;
  spec.sliding_window = 512;
  EXPECT_TRUE(CheckSpec(spec).ok()) << CheckSpec(spec);
  const absl::Status status = CheckFields(spec.Canonical() + " softcap=30 sinks=1");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("this model: softcap=30, sinks=1\n"), Not(HasSubstr("window"))));
}

// The self-check has nothing to compare it with.
TEST(SpecCheckTest, WhatTheDecoderDoesNotComputeIsNamed) {
  model::DecoderSpec spec;
  spec.head_size = 8;
  spec.norm.kind = model::NormSpec::Kind::kLayer;
  spec.post_norm = true;
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSpec(spec)));
  EXPECT_THAT(std::string(CheckSpec(spec).message()), HasSubstr("post_norm is true"));
}

}  // namespace
}  // namespace tandem::torch
