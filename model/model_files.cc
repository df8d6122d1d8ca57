#include "model/model_files.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/hub/snapshot_directory.h"
#include "model/content_hash.h"
#include "model/finite_check.h"
#include "model/generation_config.h"
#include "model/tensor_finder.h"

namespace tandem::model {
namespace {

absl::Status In(const std::string& directory, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(directory, ": ", status.message()));
}

}  // namespace

int64_t ModelFiles::bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, view] : checkpoint.tensors()) bytes += static_cast<int64_t>(view.bytes);
  return bytes;
}

absl::StatusOr<ModelInfo> ModelFiles::Info(Dtype dtype) const {
  if (!unused_fields.empty()) {
    TANDEM_LOG(kWarning) << base::LogFields("generation_config_fields_unused")
                                .Add("fields", absl::StrJoin(unused_fields, ","));
  }
  ModelInfo info;
  info.eos_token_ids = config.eos_token_ids;
  info.sampling_defaults = sampling_defaults;
  TANDEM_ASSIGN_OR_RETURN(
      info.model_id,
      ModelId(config, checkpoint, [&](const std::string& name, const TensorView& view) {
        // What nobody computes with may be anything: masks are infinite.
        if (IsIgnored(config.family->tensors, name)) return absl::OkStatus();
        return CheckFinite(name, view, dtype);
      }));
  return info;
}

absl::StatusOr<ModelFiles> ReadModelFiles(
    const std::string& given, bool sampling_defaults,
    absl::FunctionRef<absl::Status(const ModelConfig&)> check) {
  TANDEM_ASSIGN_OR_RETURN(const std::string directory, hub::SnapshotDirectory(given));
  ModelFiles files;
  TANDEM_ASSIGN_OR_RETURN(files.config, ReadConfig(directory));
  TANDEM_RETURN_IF_ERROR(In(directory, check(files.config)));
  if (sampling_defaults) {
    TANDEM_ASSIGN_OR_RETURN(files.sampling_defaults,
                            ReadSamplingDefaults(directory, &files.unused_fields));
  }
  TANDEM_ASSIGN_OR_RETURN(files.checkpoint, Checkpoint::Open(directory));
  auto tensors = FindTensors(files.config.spec, files.config.family->tensors, files.checkpoint,
                             files.config.packed);
  TANDEM_RETURN_IF_ERROR(In(directory, tensors.status()));
  files.tensors = *std::move(tensors);
  if (files.tensors.int8 != files.config.int8_weights) {
    return In(directory,
              absl::InvalidArgumentError(
                  files.tensors.int8
                      ? "weights are I8, and config.json has no quantization_config that says how "
                        "they were made: download the model again, or give the one it was made from"
                      : "quantization_config says int-quantized, and no weight is I8: download the "
                        "model again, or take quantization_config out of config.json"));
  }
  if (files.tensors.packed.empty() && files.config.packed.format != PackedFormat::kNone) {
    return In(directory, absl::InvalidArgumentError(
                             "quantization_config says that weights are packed, and none is: "
                             "download the model again, or take quantization_config out of "
                             "config.json"));
  }
  return files;
}

}  // namespace tandem::model
