// A conversation, and the requests that it makes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "client/chat/options.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

// Not thread-safe.
class ChatHistory {
 public:
  // `cache_scope`: of all its requests; empty: none. `text_runs`: answers tell what was drafted.
  ChatHistory(const ChatOptions& options, absl::string_view cache_scope, bool text_runs);

  // A request for the answer to `text`. The history does not change: the answer may fail.
  v1::GenerateRequest Ask(absl::string_view text) const;
  // A turn is over.
  void Add(absl::string_view text, absl::string_view answer);

  // Forgets the last turn. False: there is none.
  bool Undo();
  // Forgets all turns. The system's message stays.
  void Reset();
  // Sets the system's message (empty: none) and forgets all turns.
  void SetSystem(absl::string_view text);

 private:
  v1::GenerateRequest request_;
  int first_ = 0;  // messages before the first turn
};

}  // namespace tandem::client
