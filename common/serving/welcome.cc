#include "common/serving/welcome.h"

#include "common/messages/handshake.h"
#include "common/sampling/sparse.h"

namespace tandem::serving {

v1::Welcome MakeWelcome(const ServiceIdentity& identity) {
  v1::Welcome welcome;
  welcome.set_protocol_revision(messages::kProtocolRevision);
  v1::Limits& limits = *welcome.mutable_limits();
  limits.set_max_message_bytes(messages::kMaxMessageBytes);
  limits.set_max_draft_tokens(identity.max_draft_tokens);
  limits.set_max_q_entries(sampling::kMaxSparseEntries);
  limits.set_max_unanswered(1);
  limits.set_max_sequences(identity.max_sequences);
  limits.set_context_length(identity.context_length);
  welcome.set_instance_id(identity.instance_id);
  welcome.set_tokenizer_id(identity.tokenizer_id);
  welcome.set_model_id(identity.model_id);
  welcome.set_numerics_id(identity.numerics_id);
  welcome.set_vocabulary_size(identity.vocabulary_size);
  return welcome;
}

}  // namespace tandem::serving
