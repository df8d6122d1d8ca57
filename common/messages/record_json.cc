#include "common/messages/record_json.h"

namespace tandem::messages {

using base::JsonObject;
using base::JsonText;

JsonObject LengthJson(const v1::LengthRecord& length) {
  JsonObject zero_rounds;
  for (const v1::CausedRounds& caused : length.zero_rounds()) {
    zero_rounds.Set(caused.cause(), caused.rounds());
  }
  JsonObject json({{"chosen_histogram", JsonText::Array(length.chosen_histogram())},
                   {"zero_rounds", zero_rounds}});
  if (length.has_alpha()) json.Set("alpha", length.alpha());
  if (length.has_draft_token_us()) json.Set("draft_token_us", length.draft_token_us());
  if (length.has_min_confidence()) json.Set("min_confidence", length.min_confidence());
  return json;
}

JsonObject DrafterJson(const v1::DrafterRecord& one) {
  JsonObject reasons;
  for (const v1::CausedRounds& caused : one.reasons()) reasons.Set(caused.cause(), caused.rounds());
  return JsonObject({{"drafter", one.drafter()},
                     {"rounds", one.rounds()},
                     {"drafted_rounds", one.drafted_rounds()},
                     {"draft_tokens", one.draft_tokens()},
                     {"accepted_tokens", one.accepted_tokens()},
                     {"tokens", one.tokens()},
                     {"reasons", reasons}});
}

}  // namespace tandem::messages
