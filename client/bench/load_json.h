// What load_report.h tells, for programs.
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "client/bench/load_report.h"

namespace tandem::client {

// One line each.
std::string LoadTablesJson(const std::vector<LoadTable>& tables);
std::string IdleJson(const std::vector<IdlePair>& pairs, double silence_s);

}  // namespace tandem::client
