#include "target_service/engine/make_engine.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "target_service/engine/judge_check.h"
#include "target_service/engine/torch_engine.h"
#include "torch/kernels/load_kernels.h"
#include "torch/torch_model.h"

namespace tandem::target_service {
namespace {

constexpr char kOnDevice[] = "judge-kernel";
constexpr char kOnHost[] = "judge-host";

absl::StatusOr<std::unique_ptr<kernels::DeviceJudge>> LoadJudge(uint32_t vocabulary_size) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<kernels::CudaDriver> driver, kernels::CudaDriver::Load());
  TANDEM_RETURN_IF_ERROR(driver->MakeCurrent());
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<kernels::KernelModule> judge,
                          kernels::LoadKernels(*driver, "torch/kernels/judge.cu"));
  return std::make_unique<kernels::DeviceJudge>(std::move(driver), std::move(judge),
                                                vocabulary_size);
}

absl::StatusOr<std::unique_ptr<kernels::DeviceJudge>> CheckedJudge(const JudgeSource& source,
                                                                   uint32_t vocabulary_size) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<kernels::DeviceJudge> judge, source(vocabulary_size));
  TANDEM_RETURN_IF_ERROR(CheckJudge(*judge));
  return judge;
}

}  // namespace

absl::Status CheckCardJudge(uint32_t vocabulary_size) {
  return CheckedJudge(LoadJudge, vocabulary_size).status();
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const CpuEngineOptions& options,
                                                   std::unique_ptr<model::LanguageModel> model) {
  return MakeEngine(options, std::move(model), LoadJudge);
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const CpuEngineOptions& options,
                                                   std::unique_ptr<model::LanguageModel> model,
                                                   const JudgeSource& judge_source) {
  auto* torch_model = dynamic_cast<torch::TorchModel*>(model.get());
  if (torch_model == nullptr || !torch_model->step().info().stream.has_value()) {
    return CpuEngine::Create(options, std::move(model));
  }
  const uint32_t models = model->info().vocabulary_size;
  const uint32_t vocabulary_size = options.vocabulary_size > 0 ? options.vocabulary_size : models;
  if (vocabulary_size <= models) {
    auto judge = CheckedJudge(judge_source, vocabulary_size);
    if (judge.ok()) {
      static_cast<void>(model.release());  // the engine owns it
      auto engine = std::make_unique<TorchEngine>(std::unique_ptr<torch::TorchModel>(torch_model),
                                                  *std::move(judge));
      engine->NamePaths(kOnDevice, torch_model->switched_off());
      return engine;
    }
    TANDEM_LOG(kWarning) << base::LogFields("device_path_switched_off")
                                .Add("path", kOnDevice)
                                .Add("failed", judge.status().ToString());
  }
  std::vector<std::string> switched_off = torch_model->switched_off();
  switched_off.push_back(kOnDevice);
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<CpuEngine> engine,
                          CpuEngine::Create(options, std::move(model)));
  engine->NamePaths(kOnHost, switched_off);
  return engine;
}

}  // namespace tandem::target_service
