// Parts of an AcceptanceRecord as JSON, the same in the client's output and in the HTTP answers.
#pragma once

#include "common/base/json.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::messages {

// Rounds by their cause.
base::JsonObject CausesJson(const google::protobuf::RepeatedPtrField<v1::CausedRounds>& all);
// What the length policy chose: how often each length, why it chose 0, and its estimates, where it
// has any.
base::JsonObject LengthJson(const v1::LengthRecord& length);
// What each of several drafters did in a request.
base::JsonText DraftersJson(const v1::AcceptanceRecord& record);

}  // namespace tandem::messages
