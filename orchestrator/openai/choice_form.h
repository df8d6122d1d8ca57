// How a choice looks in an answer: one form for each kind of request.
//
// Thread safety: const methods from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/json.h"
#include "orchestrator/generate/token_bytes.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

class ChoiceForm {
 public:
  virtual ~ChoiceForm() = default;

  virtual absl::string_view id_prefix() const = 0;
  virtual absl::string_view whole_object() const = 0;
  virtual absl::string_view stream_object() const = 0;
  // Members that a stream's first event of a choice has; empty: it needs none.
  virtual std::vector<base::JsonObject::Member> FirstEvent() const = 0;
  // Members with a part of the text (a stream) or all of it.
  virtual std::vector<base::JsonObject::Member> Part(absl::string_view text) const = 0;
  virtual std::vector<base::JsonObject::Member> Whole(absl::string_view text) const = 0;
  // The log probabilities of these tokens; NaN stands for one that there is not. The token itself
  // is among the alternatives, where there are any. `offsets`: where each begins in the choice's
  // text; empty in a form without them.
  virtual base::JsonText Logprobs(const v1::Delta& tokens,
                                  absl::Span<const size_t> offsets) const = 0;
};

// Of /v1/completions: `text`, and log probabilities as lists.
std::unique_ptr<ChoiceForm> TextForm(TokenBytes token_bytes);

// Of /v1/chat/completions: `message` or `delta`, and log probabilities token by token.
std::unique_ptr<ChoiceForm> ChatForm(TokenBytes token_bytes);

// A log probability as both forms write it: -9999 stands for minus infinity, which JSON has not.
base::JsonText LogprobJson(float logprob);

}  // namespace tandem::orchestrator
