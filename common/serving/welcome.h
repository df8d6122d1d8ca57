// What a service says of itself in Welcome.
#pragma once

#include <cstdint>
#include <string>

#include "tandem/v1/describe.pb.h"

namespace tandem::serving {

// As the fields of Welcome and of its limits (describe.proto).
struct ServiceIdentity {
  std::string instance_id;
  std::string tokenizer_id;
  std::string model_id;
  std::string numerics_id;
  uint32_t vocabulary_size = 0;
  uint32_t context_length = 0;
  uint32_t max_draft_tokens = 0;
  uint32_t max_sequences = 0;
};

// With the limits that every service has. What else a service offers it adds itself.
v1::Welcome MakeWelcome(const ServiceIdentity& identity);

}  // namespace tandem::serving
