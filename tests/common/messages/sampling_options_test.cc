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

TEST(SamplingOptions, LogprobsTravelBothWays) {
  const sampling::LogprobOptions options{7, true};
  EXPECT_EQ(FromWire(ToWire(options)), options);
  EXPECT_FALSE(ToWire(options).prompt()) << "that one is a client's";
}

}  // namespace
}  // namespace tandem::messages
