// The hook by which tests decide otherwise.
#pragma once

#include <functional>

#include "absl/types/span.h"
#include "common/acceptance/rule.h"

namespace tandem::orchestrator {

// As acceptance::Decide.
using DecideFunction = std::function<acceptance::Decision(
    acceptance::Rule rule, absl::Span<const acceptance::Entry> entries,
    absl::Span<const double> uniforms)>;

}  // namespace tandem::orchestrator
