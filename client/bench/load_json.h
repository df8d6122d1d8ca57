// The tables of load_report.h as JSON, for programs.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/bench/load_report.h"
#include "client/common/stats.h"
#include "common/base/json.h"

namespace tandem::client {

base::JsonText ToJson(const Spread& spread);
base::JsonText ToJson(const std::optional<MeanFactor>& factor);  // null without a value

// Each returns one line.
std::string LoadTablesJson(const std::vector<LoadTable>& tables);
std::string IdleJson(const std::vector<IdlePair>& pairs, double silence_s);

}  // namespace tandem::client
