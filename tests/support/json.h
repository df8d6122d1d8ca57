// JSON that a test reads.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/json.h"
#include "gtest/gtest.h"

namespace tandem::testing {

// Fails the test, and gives null, when it is not JSON.
inline base::JsonValue ParseJson(absl::string_view text) {
  const auto json = base::JsonValue::Parse(text);
  EXPECT_TRUE(json.ok()) << text;
  return json.value_or(base::JsonValue());
}

// Of a list of token ids. What is not an id ends the test.
inline std::vector<uint32_t> IdsOf(const base::JsonValue& list) {
  std::vector<uint32_t> ids;
  for (const base::JsonValue& id : list.Elements()) {
    ids.push_back(static_cast<uint32_t>(id.Unsigned().value()));
  }
  return ids;
}

}  // namespace tandem::testing
