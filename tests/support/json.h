// JSON that a test reads.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/config/json.h"
#include "gtest/gtest.h"

namespace tandem::testing {

// Fails the test, and gives null, when it is not JSON.
inline config::JsonValue ParseJson(absl::string_view text) {
  const auto json = config::JsonValue::Parse(text);
  EXPECT_TRUE(json.ok()) << text;
  return json.value_or(config::JsonValue());
}

// Of a list of token ids. What is no id ends the test.
inline std::vector<uint32_t> IdsOf(const config::JsonValue& list) {
  std::vector<uint32_t> ids;
  for (const config::JsonValue& id : list.Elements()) {
    ids.push_back(static_cast<uint32_t>(id.Unsigned().value()));
  }
  return ids;
}

}  // namespace tandem::testing
