// The engines that a target may have, by the name that --device has.
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "target_service/engine/engine_factory.h"

namespace tandem::target_service {

const std::vector<EngineFactory>& Engines();  // the default first

// As --device takes them: "cpu", …, "cuda", "cuda:N".
std::vector<std::string> EngineNames();
// "cpu (own kernels), torch-cpu (…) or …"
std::string EngineSummaries();
// `device` is one of EngineNames(), which flags have checked.
const EngineFactory& EngineNamed(absl::string_view device);

}  // namespace tandem::target_service
