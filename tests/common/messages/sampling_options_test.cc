#include "common/messages/sampling_options.h"

#include <gtest/gtest.h>

namespace tandem::messages {
namespace {

TEST(SamplingOptions, WhatIsAbsentIsTheDefault) {
  EXPECT_EQ(FromWire(v1::SamplingOptions()), sampling::SamplingParameters());

  sampling::SamplingParameters defaults;
  defaults.temperature = 0;
  defaults.top_k = 9;
  defaults.top_p = 0.5;
  defaults.min_p = 0.25;
  defaults.repetition_penalty = 2;
  defaults.stop_token_ids = {6};
  EXPECT_EQ(FromWire(v1::SamplingOptions(), defaults), defaults);
}

TEST(SamplingOptions, WhatIsWrittenStandsThoughItMeansOff) {
  sampling::SamplingParameters defaults;
  defaults.temperature = 0;
  defaults.top_k = 9;
  defaults.top_p = 0.5;
  defaults.min_p = 0.25;
  defaults.repetition_penalty = 2;
  v1::SamplingOptions written;
  written.set_temperature(1);
  written.set_top_k(0);
  written.set_top_p(1);
  written.set_min_p(0);
  written.set_repetition_penalty(1);
  EXPECT_EQ(FromWire(written, defaults), sampling::SamplingParameters());
}

// Every member of the parameters travels, as itself.
TEST(SamplingOptions, EveryParameterTravels) {
  sampling::SamplingParameters sent;
  sent.temperature = 0.5;
  sent.top_k = 5;
  sent.top_p = 0.75;
  sent.min_p = 0.125;
  sent.repetition_penalty = 1.5;
  sent.presence_penalty = -0.25;
  sent.frequency_penalty = 0.75;
  sent.bias = {{1, 2.5}, {3, -100}};
  sent.banned = {7};
  sent.allowed = {1, 2, 3, 7};
  sent.min_tokens = 4;
  EXPECT_EQ(FromWire(ToWire(sent)), sent);
  EXPECT_EQ(ToWire(sent).top_p(), 0.75f);
}

TEST(SamplingOptions, LogprobsTravelBothWays) {
  const sampling::LogprobOptions options{7, true};
  EXPECT_EQ(FromWire(ToWire(options)), options);
  EXPECT_FALSE(ToWire(options).prompt()) << "that one is a client's";
}

}  // namespace
}  // namespace tandem::messages
