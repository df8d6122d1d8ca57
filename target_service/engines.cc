#include "target_service/engines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "target_service/engine/cpu/cpu_engine.h"
#include "target_service/engine/torch/torch_factories.h"
#include "torch/load_options.h"

namespace tandem::target_service {

const std::vector<EngineFactory>& Engines() {
  static const auto& engines = *new std::vector<EngineFactory>{
      CpuEngineFactory(),
      TorchCpuFactory(),
      CudaFactory(),
  };
  return engines;
}

std::vector<std::string> EngineNames() {
  std::vector<std::string> names;
  for (const EngineFactory& engine : Engines()) {
    names.push_back(engine.name);
    if (engine.on_card) names.push_back(absl::StrCat(engine.name, ":N"));
  }
  return names;
}

std::string EngineSummaries() {
  std::string text;
  for (const EngineFactory& engine : Engines()) {
    const bool first = &engine == &Engines().front(), last = &engine == &Engines().back();
    absl::StrAppend(&text,
                    first  ? ""
                    : last ? " or "
                           : ", ",
                    engine.name, " (", engine.summary, ")");
  }
  return text;
}

const EngineFactory& EngineNamed(absl::string_view device) {
  const std::string name = torch::ParseDevice(device).device;
  const auto found =
      std::find_if(Engines().begin(), Engines().end(),
                   [&name](const EngineFactory& engine) { return engine.name == name; });
  TANDEM_CHECK(found != Engines().end()) << name;
  return *found;
}

}  // namespace tandem::target_service
