#include "common/serving/welcome.h"

#include <gtest/gtest.h>

#include "common/messages/handshake.h"
#include "common/sampling/sparse.h"

namespace tandem::serving {
namespace {

TEST(WelcomeTest, TellsTheServiceAndTheLimitsOfAll) {
  const v1::Welcome welcome = MakeWelcome({.instance_id = "instance",
                                           .tokenizer_id = "tokenizer",
                                           .model_id = "model",
                                           .numerics_id = "numerics",
                                           .vocabulary_size = 8,
                                           .context_length = 200,
                                           .max_draft_tokens = 16,
                                           .max_sequences = 64});
  EXPECT_EQ(welcome.instance_id(), "instance");
  EXPECT_EQ(welcome.tokenizer_id(), "tokenizer");
  EXPECT_EQ(welcome.model_id(), "model");
  EXPECT_EQ(welcome.numerics_id(), "numerics");
  EXPECT_EQ(welcome.vocabulary_size(), 8u);
  EXPECT_EQ(welcome.protocol_revision(), messages::kProtocolRevision);
  EXPECT_EQ(welcome.limits().context_length(), 200u);
  EXPECT_EQ(welcome.limits().max_draft_tokens(), 16u);
  EXPECT_EQ(welcome.limits().max_sequences(), 64u);
  EXPECT_EQ(welcome.limits().max_message_bytes(), messages::kMaxMessageBytes);
  EXPECT_EQ(welcome.limits().max_q_entries(), sampling::kMaxSparseEntries);
  EXPECT_EQ(welcome.limits().max_unanswered(), 1u);
}

}  // namespace
}  // namespace tandem::serving
