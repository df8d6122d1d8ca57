#include "common/speculation/proposal_codec.h"

#include "gtest/gtest.h"

namespace tandem::speculation {
namespace {

TEST(ProposalCodec, ArrivesAsItWasSent) {
  for (Proposal proposal : {Proposal::kDefault, Proposal::kSampled, Proposal::kGreedy}) {
    EXPECT_EQ(FromWire(ToWire(proposal)), proposal);
  }
  EXPECT_EQ(ToWire(Proposal::kDefault), v1::PROPOSAL_UNSPECIFIED);
  EXPECT_EQ(ToWire(Proposal::kSampled), v1::PROPOSAL_SAMPLED);
  EXPECT_EQ(ToWire(Proposal::kGreedy), v1::PROPOSAL_GREEDY);
}

TEST(ProposalCodec, WhatIsNotKnownIsNoProposal) {
  EXPECT_EQ(FromWire(static_cast<v1::Proposal>(v1::Proposal_MAX + 1)), std::nullopt);
}

}  // namespace
}  // namespace tandem::speculation
