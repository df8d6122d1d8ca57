#include "torch/load.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "torch/library/library.h"
#include "torch/loading.h"
#include "torch/path_choice.h"
#include "torch/phases.h"

namespace tandem::torch {
namespace {

void LogSwitchedOff(const std::string& device, const Path& path, const absl::Status& why) {
  TANDEM_LOG(kWarning) << base::LogFields("device_path_switched_off")
                              .Add("device", device)
                              .Add("path", PathName(path))
                              .Add("failed", why.message());
}

// The fastest way that passes the self-check; those that do not are logged.
absl::StatusOr<PathChoice> ChosenPath(const Loading& loading, const std::string& device) {
  TANDEM_ASSIGN_OR_RETURN(PathChoice choice, ChoosePath(loading.Paths(), [&](const Path& path) {
                            return loading.Check(path);
                          }));
  for (const CheckedPath& checked : choice.switched_off) {
    LogSwitchedOff(device, checked.path, FirstFailures(checked.results));
  }
  return choice;
}

// The same with products of all rows of a pass, where these give the bits of tiles.
Path WithProducts(const Loading& loading, const std::string& device, Path path) {
  if (!loading.HasLongPasses()) return path;
  const absl::Status same = loading.CheckProducts(path);
  path.whole_products = same.ok();
  base::LogFields log("products_chosen");
  log.Add("device", device).Add("products", same.ok() ? "whole" : "tiles");
  if (!same.ok()) log.Add("differs", same.message());
  TANDEM_LOG(kInfo) << log;
  return path;
}

// The whole model. Where it has no room for graphs, or they fail on it, it goes without.
absl::StatusOr<std::unique_ptr<TorchModel>> Finished(const Loading& loading,
                                                     const std::string& device,
                                                     const PathChoice& choice,
                                                     model::LoadReport& report) {
  std::vector<std::string> switched_off;
  for (const CheckedPath& checked : choice.switched_off) {
    switched_off.push_back(PathName(checked.path));
  }
  Path path = choice.chosen.path;
  auto model = loading.Finish(path, report);
  if (!model.ok() && path.graphs) {
    LogSwitchedOff(device, path, model.status());
    switched_off.push_back(PathName(path));
    path.graphs = false;
    model = loading.Finish(path, report);
  }
  if (model.ok()) (*model)->SetSwitchedOff(std::move(switched_off));
  return model;
}

LoadOptions OptionsFor(absl::string_view device, const model::LoadOptions& options) {
  LoadOptions torch;
  torch.model = options;
  const DeviceChoice choice = ParseDevice(device);
  torch.device = choice.device;
  torch.card = choice.card;
  return torch;
}

template <typename Result>
Result OfDevice(const LoadOptions& options, Result result) {
  if (result.ok()) return result;
  const std::string card = options.card > 0 ? absl::StrCat(":", options.card) : "";
  return absl::Status(result.status().code(), absl::StrCat("--device=", options.device, card, ": ",
                                                           result.status().message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchModel>> Load(const LoadOptions& options) {
  const auto load = [&]() -> absl::StatusOr<std::unique_ptr<TorchModel>> {
    TANDEM_RETURN_IF_ERROR(options.model.Validate());
    TANDEM_ASSIGN_OR_RETURN(const Library* library, LoadLibrary(options.library));
    return Load(options, *library);
  };
  return OfDevice(options, load());
}

absl::StatusOr<std::unique_ptr<TorchModel>> Load(const LoadOptions& options,
                                                 const Library& library) {
  const auto start = std::chrono::steady_clock::now();
  Phases phases;
  TANDEM_RETURN_IF_ERROR(options.model.Validate());
  TANDEM_ASSIGN_OR_RETURN(Loading loading, Loading::Begin(options, library));
  phases.End("files");
  TANDEM_RETURN_IF_ERROR(loading.ChooseTile());
  phases.End("tile");
  TANDEM_ASSIGN_OR_RETURN(PathChoice choice, ChosenPath(loading, options.device));
  choice.chosen.path = WithProducts(loading, options.device, choice.chosen.path);
  phases.End("self-check");
  model::LoadReport report;
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<TorchModel> model,
                          Finished(loading, options.device, choice, report));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report.seconds = took.count();
  report.phases.insert(report.phases.begin(), phases.all().begin(), phases.all().end());
  if (options.model.report != nullptr) *options.model.report = report;
  return model;
}

absl::StatusOr<int64_t> CheckLoad(const LoadOptions& options) {
  const auto check = [&]() -> absl::StatusOr<int64_t> {
    TANDEM_RETURN_IF_ERROR(options.model.Validate());
    TANDEM_ASSIGN_OR_RETURN(const Library* library, LoadLibrary(options.library));
    TANDEM_ASSIGN_OR_RETURN(const Loading loading, Loading::Begin(options, *library));
    return loading.CheckRoom();
  };
  return OfDevice(options, check());
}

absl::StatusOr<std::unique_ptr<model::LanguageModel>> LoadFor(absl::string_view device,
                                                              const model::LoadOptions& options) {
  if (device == kCpu) return model::Load(options);
  return Load(OptionsFor(device, options));
}

absl::StatusOr<int64_t> CheckLoadFor(absl::string_view device, const model::LoadOptions& options) {
  if (device == kCpu) return model::CheckLoad(options);
  return CheckLoad(OptionsFor(device, options));
}

absl::StatusOr<DeviceReport> CheckDevice(const LoadOptions& options) {
  TANDEM_RETURN_IF_ERROR(options.model.Validate());
  TANDEM_ASSIGN_OR_RETURN(const Library* library, LoadLibrary(options.library));
  TANDEM_ASSIGN_OR_RETURN(Loading loading, Loading::Begin(options, *library));
  TANDEM_RETURN_IF_ERROR(loading.ChooseTile());
  DeviceReport report;
  report.table = absl::StrCat("LibTorch ", library->torch_version, "\n\n");
  for (const Path& path : loading.Paths()) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<CheckResult> results, loading.Check(path));
    const absl::Status status = FirstFailures(results);
    std::vector<CostPoint> cost;
    std::string products;
    if (status.ok()) {
      model::LoadReport unused;
      const Path best = WithProducts(loading, options.device, path);
      if (best.whole_products) products = ", one product per pass";
      TANDEM_ASSIGN_OR_RETURN(auto model, loading.Finish(best, unused));
      TANDEM_ASSIGN_OR_RETURN(cost, MeasureCost(*model));
      if (report.numerics_id.empty()) report.numerics_id = model->info().numerics_id;
      report.vocabulary_size = model->info().vocabulary_size;
    }
    absl::StrAppend(&report.table, "path: ", PathName(path), products, "\n",
                    CheckTable(results, cost), "\n");
    report.all_passed = report.all_passed && status.ok();
  }
  return report;
}

}  // namespace tandem::torch
