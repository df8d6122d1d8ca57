// A target and a draft that compute nothing: every Step and every Advance is answered at once, every
// candidate is accepted. What an orchestrator takes beside them is its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tandem::testing {

class InstantPeers {
 public:
  // Both listen on ports of their own. `tokenizer_id`, `vocabulary_size`: of the orchestrator's
  // tokenizer. They have slots for any number of sequences of `context_length` tokens.
  InstantPeers(const std::string& tokenizer_id, uint32_t vocabulary_size, uint32_t context_length);
  ~InstantPeers();

  // host:port.
  std::string target_address() const;
  std::string draft_address() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::testing
