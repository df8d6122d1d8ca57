// What a device computes rightly, what passes cost on it, and who judges their rows:
// `tandem-target --check-device` (docs/gpu.md), for a machine that cannot build the services.
// Usage: device_check MODEL [cuda, cuda:N or torch-cpu] [dtype] [fastest: only the way that serves,
// not all]
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "model/dtype.h"
#include "model/load.h"
#include "target_service/engine/torch/torch_factories.h"
#include "torch/load.h"
#include "torch/self_check.h"

namespace {

absl::Status Check(const tandem::torch::LoadOptions& options, bool fastest) {
  tandem::torch::DeviceReport report;
  report.all_passed = true;
  if (!fastest) {
    TANDEM_ASSIGN_OR_RETURN(report, tandem::torch::CheckDevice(options));
    std::printf("%s", report.table.c_str());
  }
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<tandem::torch::TorchModel> model,
                          tandem::torch::Load(options));
  if (fastest) {
    TANDEM_ASSIGN_OR_RETURN(const auto cost, tandem::torch::MeasureCost(*model));
    std::printf("%s", tandem::torch::CheckTable({}, cost).c_str());
  }
  TANDEM_ASSIGN_OR_RETURN(
      const auto engine,
      tandem::target_service::MakeTorchEngine({}, std::move(model),
                                              tandem::target_service::JudgeOnCard(options.card)));
  std::printf("serves as %s\n", engine->info().model.numerics_id.c_str());
  if (report.all_passed && engine->info().switched_off.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError("the device failed its self-check");
}

}  // namespace

int main(int argc, char** argv) {
  const auto dtype = tandem::model::ParseDtype(argc > 3 ? argv[3] : "auto");
  const bool fastest = argc > 4 && std::strcmp(argv[4], "fastest") == 0;
  if (argc < 2 || argc > (fastest ? 5 : 4) || !dtype.ok()) {
    std::fprintf(stderr,
                 "usage: device_check MODEL [cuda, cuda:N or torch-cpu] [dtype] [fastest]\n");
    return 2;
  }
  tandem::torch::LoadOptions options;
  options.model.directory = argv[1];
  options.model.threads = tandem::model::DefaultThreads(/*max=*/16);
  const auto device = tandem::torch::ParseDevice(argc > 2 ? argv[2] : tandem::torch::kCuda);
  options.device = device.device;
  options.card = device.card;
  options.model.dtype = *dtype;
  const absl::Status status = Check(options, fastest);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", status.ToString().c_str());
  return 1;
}
