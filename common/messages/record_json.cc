#include "common/messages/record_json.h"

#include <vector>

namespace tandem::messages {

using base::JsonObject;
using base::JsonText;

namespace {

JsonObject DrafterJson(const v1::DrafterRecord& one) {
  return JsonObject({{"drafter", one.drafter()},
                     {"rounds", one.rounds()},
                     {"drafted_rounds", one.drafted_rounds()},
                     {"draft_tokens", one.draft_tokens()},
                     {"accepted_tokens", one.accepted_tokens()},
                     {"tokens", one.tokens()},
                     {"reasons", CausesJson(one.reasons())}});
}

}  // namespace

JsonObject CausesJson(const google::protobuf::RepeatedPtrField<v1::CausedRounds>& all) {
  JsonObject json;
  for (const v1::CausedRounds& caused : all) json.Set(caused.cause(), caused.rounds());
  return json;
}

JsonObject LengthJson(const v1::LengthRecord& length) {
  JsonObject json({{"chosen_histogram", JsonText::Array(length.chosen_histogram())},
                   {"zero_rounds", CausesJson(length.zero_rounds())}});
  if (length.has_alpha()) json.Set("alpha", length.alpha());
  if (length.has_draft_token_us()) json.Set("draft_token_us", length.draft_token_us());
  if (length.has_min_confidence()) json.Set("min_confidence", length.min_confidence());
  return json;
}

JsonText DraftersJson(const v1::AcceptanceRecord& record) {
  std::vector<JsonText> drafters;
  for (const v1::DrafterRecord& one : record.drafters()) drafters.push_back(DrafterJson(one));
  return JsonText::Array(drafters);
}

}  // namespace tandem::messages
