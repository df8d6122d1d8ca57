#include "target_service/engine/torch/torch_factories.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "target_service/engine/torch/torch_engine.h"
#include "torch/kernels/load_kernels.h"
#include "torch/load.h"

namespace tandem::target_service {
namespace {

constexpr char kOnDevice[] = "judge-kernel";
constexpr char kOnHost[] = "judge-host";

absl::StatusOr<std::unique_ptr<kernels::DeviceJudge>> LoadJudge(int card, uint32_t vocabulary_size,
                                                                int max_rows) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<kernels::CudaDriver> driver,
                          kernels::CudaDriver::Load(card));
  TANDEM_RETURN_IF_ERROR(driver->MakeCurrent());
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<kernels::KernelModule> judge,
                          kernels::LoadKernels(*driver, "torch/kernels/judge.cu"));
  return std::make_unique<kernels::DeviceJudge>(std::move(driver), std::move(judge),
                                                vocabulary_size, max_rows);
}

absl::StatusOr<std::unique_ptr<kernels::DeviceJudge>> CheckedJudge(const JudgeSource& source,
                                                                   uint32_t vocabulary_size,
                                                                   int max_rows) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<kernels::DeviceJudge> judge,
                          source(vocabulary_size, max_rows));
  TANDEM_RETURN_IF_ERROR(CheckJudge(*judge));
  return judge;
}

torch::LoadOptions ForTorch(const EngineOptions& options, const std::string& device) {
  torch::LoadOptions torch;
  torch.model = options.model;
  torch.device = device;
  torch.card = options.card;
  torch.gpu_memory_utilization = options.gpu_memory_utilization;
  torch.mma_attention = options.mma_attention;
  return torch;
}

absl::StatusOr<SelfCheck> CheckOf(const torch::LoadOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(const torch::DeviceReport report, torch::CheckDevice(options));
  SelfCheck check{.passed = report.all_passed, .text = report.table};
  if (options.device == torch::kCuda && report.vocabulary_size > 0) {
    const absl::Status judge =
        CheckedJudge(JudgeOnCard(options.card), report.vocabulary_size, options.model.max_rows)
            .status();
    absl::StrAppend(&check.text, "judging on the card: ", judge.ok() ? "passed" : judge.ToString(),
                    "\n");
    check.passed = check.passed && judge.ok();
  }
  if (!report.numerics_id.empty()) {
    absl::StrAppend(&check.text, "serves as ", report.numerics_id, "\n");
  }
  return check;
}

EngineFactory Factory(const std::string& device, const std::string& summary) {
  const auto open =
      [device](const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
    TANDEM_ASSIGN_OR_RETURN(auto model, torch::Load(ForTorch(options, device)));
    CpuEngineOptions engine;
    engine.vocabulary_size = options.VocabularyOf(*model);
    engine.clock = options.clock;
    return MakeTorchEngine(engine, std::move(model), JudgeOnCard(options.card));
  };
  return {
      .name = device,
      .summary = summary,
      .on_card = device == torch::kCuda,
      .open = open,
      .check =
          [device](const EngineOptions& options) {
            return torch::CheckLoad(ForTorch(options, device));
          },
      .self_check =
          [device](const EngineOptions& options) { return CheckOf(ForTorch(options, device)); }};
}

}  // namespace

EngineFactory TorchCpuFactory() {
  return Factory(torch::kTorchCpu, "LibTorch, which libtandem_torch.so brings");
}

EngineFactory CudaFactory() {
  return Factory(torch::kCuda, "LibTorch on the first card, cuda:N on another");
}

JudgeSource JudgeOnCard(int card) {
  return [card](uint32_t vocabulary_size, int max_rows) {
    return LoadJudge(card, vocabulary_size, max_rows);
  };
}

absl::StatusOr<std::unique_ptr<Engine>> MakeTorchEngine(const CpuEngineOptions& options,
                                                        std::unique_ptr<torch::TorchModel> model,
                                                        const JudgeSource& judge_source) {
  if (!model->step().info().stream.has_value()) return CpuEngine::Create(options, std::move(model));
  std::vector<std::string> switched_off = model->switched_off();
  const uint32_t models = model->info().vocabulary_size;
  const uint32_t vocabulary_size = options.vocabulary_size > 0 ? options.vocabulary_size : models;
  if (vocabulary_size <= models) {
    auto judge = CheckedJudge(judge_source, vocabulary_size, model->max_rows());
    if (judge.ok()) {
      auto engine = std::make_unique<TorchEngine>(std::move(model), *std::move(judge));
      engine->NamePaths(kOnDevice, switched_off);
      return engine;
    }
    TANDEM_LOG(kWarning) << base::LogFields("device_path_switched_off")
                                .Add("path", kOnDevice)
                                .Add("failed", judge.status().ToString());
  }
  switched_off.push_back(kOnDevice);
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<CpuEngine> engine,
                          CpuEngine::Create(options, std::move(model)));
  engine->NamePaths(kOnHost, switched_off);
  return engine;
}

}  // namespace tandem::target_service
