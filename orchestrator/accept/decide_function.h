// A hook with which tests replace the decision.
#pragma once

#include <functional>

#include "absl/types/span.h"
#include "common/acceptance/rule.h"

namespace tandem::orchestrator {

// Same contract as acceptance::Decide.
using DecideFunction = std::function<acceptance::Decision(
    acceptance::Rule rule, absl::Span<const acceptance::Entry> entries,
    absl::Span<const double> uniforms)>;

}  // namespace tandem::orchestrator
