// What LibTorch's step does not compute is refused by name, and only that.
#include "torch/spec_check.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::torch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SpecCheckTest, WhatTheStepReadsIsTaken) {
  model::DecoderSpec spec;
  spec.qkv_bias = true;
  spec.mlp_bias = true;
  spec.tied_embeddings = true;
  spec.rope.scaling = model::RopeSpec::Scaling::kLlama3;
  EXPECT_TRUE(CheckSpec(spec).ok()) << CheckSpec(spec);
}

TEST(SpecCheckTest, EachValueThatItDoesNotReadIsNamed) {
  model::DecoderSpec spec;
  spec.qk_norm = model::QkNorm::kHead;
  spec.sliding_window = 512;
  spec.activation = model::Activation::kGeluTanh;
  spec.norm.kind = model::NormSpec::Kind::kLayer;
  spec.rope.partial_rotary_factor = 0.5;
  const absl::Status status = CheckSpec(spec);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("qk_norm=head"), HasSubstr("window=512"), HasSubstr("activation=gelu_tanh"),
            HasSubstr("norm=layer"), HasSubstr("rotary=0.5"), Not(HasSubstr("theta"))));
}

}  // namespace
}  // namespace tandem::torch
