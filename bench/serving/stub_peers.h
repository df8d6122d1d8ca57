// A target and a draft that compute nothing: every Advance is answered at once, and every candidate
// is accepted. What an orchestrator takes beside them is its own.
//
// The target answers long prompts together, when all that it was told of have come. So the
// orchestrator holds them all at once, as beside a target whose device is busy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tandem::testing {

class StubPeers {
 public:
  // Both listen on ports of their own. `tokenizer_id`, `vocabulary_size`: of the orchestrator's
  // tokenizer. They have slots for any number of sequences of `context_length` tokens.
  StubPeers(const std::string& tokenizer_id, uint32_t vocabulary_size, uint32_t context_length);
  ~StubPeers();

  // The next `sequences` prompts of more than kShortPrompt tokens are answered together. Not while
  // an earlier call's are still to come.
  void AnswerTogether(int sequences);
  static constexpr uint32_t kShortPrompt = 100;

  // host:port.
  std::string target_address() const;
  std::string draft_address() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::testing
