#include "torch/load.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "torch/library/library.h"
#include "torch/loading.h"
#include "torch/path_choice.h"

namespace tandem::torch {
namespace {

// The fastest way that passes the self-check; those that do not are logged.
absl::StatusOr<CheckedPath> CheckedPathOf(const Loading& loading, const std::string& device) {
  TANDEM_ASSIGN_OR_RETURN(PathChoice choice, ChoosePath(loading.Paths(), [&](Attention attention) {
                            return loading.Check(attention);
                          }));
  for (const CheckedPath& path : choice.switched_off) {
    TANDEM_LOG(kWarning) << base::LogFields("device_path_switched_off")
                                .Add("device", device)
                                .Add("path", AttentionName(path.attention))
                                .Add("failed", FirstFailures(path.results).message());
  }
  return std::move(choice.chosen);
}

}  // namespace

absl::StatusOr<std::unique_ptr<model::LanguageModel>> Load(const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  TANDEM_RETURN_IF_ERROR(options.model.Validate());
  TANDEM_ASSIGN_OR_RETURN(const Library* library, LoadLibrary(options.library));
  TANDEM_ASSIGN_OR_RETURN(const Loading loading, Loading::Begin(options, *library));
  TANDEM_ASSIGN_OR_RETURN(const CheckedPath path, CheckedPathOf(loading, options.device));
  model::LoadReport report;
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<model::LanguageModel> model,
                          loading.Finish(path.attention, &report));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report.seconds = took.count();
  if (options.model.report != nullptr) *options.model.report = report;
  return model;
}

absl::StatusOr<std::unique_ptr<model::LanguageModel>> LoadFor(absl::string_view device,
                                                              const model::LoadOptions& options) {
  if (device == kCpu) return model::Load(options);
  LoadOptions torch;
  torch.model = options;
  torch.device = std::string(device);
  absl::StatusOr<std::unique_ptr<model::LanguageModel>> model = Load(torch);
  if (model.ok()) return model;
  return absl::Status(model.status().code(),
                      absl::StrCat("--device=", device, ": ", model.status().message()));
}

absl::StatusOr<DeviceReport> CheckDevice(const LoadOptions& options) {
  TANDEM_RETURN_IF_ERROR(options.model.Validate());
  TANDEM_ASSIGN_OR_RETURN(const Library* library, LoadLibrary(options.library));
  TANDEM_ASSIGN_OR_RETURN(const Loading loading, Loading::Begin(options, *library));
  DeviceReport report;
  report.table = absl::StrCat("LibTorch ", library->torch_version, "\nflash attention ",
                              library->has_paged_flash ? "takes" : "takes no",
                              " pages: ", library->flash_schema, "\n\n");
  for (const Attention attention : loading.Paths()) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<CheckResult> results, loading.Check(attention));
    const absl::Status status = FirstFailures(results);
    std::vector<CostPoint> cost;
    if (status.ok()) {
      model::LoadReport unused;
      TANDEM_ASSIGN_OR_RETURN(auto model, loading.Finish(attention, &unused));
      TANDEM_ASSIGN_OR_RETURN(cost, MeasureCost(*model));
      if (report.numerics_id.empty()) report.numerics_id = model->info().numerics_id;
    }
    absl::StrAppend(&report.table, "attention: ", AttentionName(attention), "\n",
                    CheckTable(results, cost), "\n");
    report.all_passed = report.all_passed && status.ok();
  }
  return report;
}

}  // namespace tandem::torch
