#include "torch/loading.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/process/room.h"
#include "model/decoder.h"
#include "model/memory_need.h"
#include "model/rope_table.h"
#include "torch/path_choice.h"
#include "torch/spec_check.h"
#include "torch/torch_model.h"

namespace tandem::torch {
namespace {

using model::DecoderSpec;
using model::DecoderTensors;
using model::Dtype;
using model::LanguageModel;

constexpr int kCheckedLayers = 2;
constexpr int kCheckPages = 8;  // texts of the self-check are shorter than a page
constexpr int kCheckRows = 64;  // of its largest pass

// Of a file's matrices; that of the logits' stands for all.
ComputeType FileType(const DecoderTensors& tensors) {
  if (tensors.output->dtype == "BF16") return ComputeType::kBfloat16;
  if (tensors.output->dtype == "F16") return ComputeType::kFloat16;
  return ComputeType::kFloat32;
}

ComputeType TypeFor(const LoadOptions& options, const DecoderTensors& tensors) {
  if (options.type.has_value()) return *options.type;
  if (options.model.dtype == Dtype::kBfloat16) return ComputeType::kBfloat16;
  if (options.model.dtype == Dtype::kFloat16) return ComputeType::kFloat16;
  if (options.model.dtype == Dtype::kFloat32 || options.device != kCuda) {
    return ComputeType::kFloat32;
  }
  return FileType(tensors);
}

const char* TypeName(ComputeType type) {
  if (type == ComputeType::kBfloat16) return "bf16";
  if (type == ComputeType::kFloat16) return "fp16";
  return "fp32";
}

// What rounding may do to a row of the first layers, and no wrong operation stays below.
double Tolerance(ComputeType type) {
  if (type == ComputeType::kBfloat16) return 0.2;
  if (type == ComputeType::kFloat16) return 0.03;
  return 1e-4;
}

// Whether every matrix keeps the file's values.
bool Exact(ComputeType type, const model::ModelFiles& files) {
  if (type == ComputeType::kFloat32) return true;
  const char* kept = type == ComputeType::kBfloat16 ? "BF16" : "F16";
  for (const auto& [name, view] : files.checkpoint.tensors()) {
    if (view.shape.size() == 2 && view.dtype != kept) return false;
  }
  return true;
}

// "torch-2.13.0/cpu-AVX512/tile-32/fp32/gather/threads-2": all that bits depend on.
std::string NumericsId(const Library& library, const StepOptions& options, const StepInfo& info) {
  std::string id = absl::StrCat("torch-", library.torch_version, "/",
                                absl::StrReplaceAll(info.device, {{" ", "-"}}), "/tile-", info.tile,
                                "/", TypeName(options.type), "/", AttentionName(options.attention));
  if (options.device == "cpu") absl::StrAppend(&id, "/threads-", options.threads);
  return id;
}

}  // namespace

absl::StatusOr<Loading> Loading::Begin(const LoadOptions& options, const Library& library) {
  if (options.model.dtype == Dtype::kInt8) {
    return absl::InvalidArgumentError(
        "--dtype=int8 is computed with --device=cpu only; LibTorch takes auto, fp32, bf16 and "
        "fp16");
  }
  TANDEM_ASSIGN_OR_RETURN(
      model::ModelFiles files,
      model::ReadModelFiles(options.model.directory, options.model.sampling_defaults, CheckSpec));
  return Loading(options, library, std::move(files));
}

Loading::Loading(const LoadOptions& options, const Library& library, model::ModelFiles files)
    : options_(&options),
      library_(&library),
      files_(std::move(files)),
      type_(TypeFor(options, files_.tensors)) {}

std::vector<Attention> Loading::Paths() const {
  if (options_->device != kCuda || type_ == ComputeType::kFloat32) return {Attention::kGather};
  return {Attention::kFlash, Attention::kGather};
}

absl::StatusOr<std::vector<CheckResult>> Loading::Check(Attention attention) const {
  DecoderSpec spec = files_.config.spec;
  spec.layers = std::min(spec.layers, kCheckedLayers);
  DecoderTensors tensors = files_.tensors;
  tensors.layers.resize(static_cast<size_t>(spec.layers));
  StepOptions options = OptionsFor(attention);
  options.pages = kCheckPages;
  options.progress = nullptr;
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> device,
                          Make(spec, tensors, options, nullptr));
  model::DecoderOptions decoder;
  decoder.threads = options_->model.threads;
  decoder.max_rows = kCheckRows;
  decoder.pool_tokens = kCheckPages * kPageTokens;
  model::Decoder reference(spec, model::DecoderWeights(spec, tensors, Dtype::kAuto, nullptr),
                           decoder, {});
  CheckOptions check;
  check.tolerance = Tolerance(type_);
  check.trees = attention == Attention::kGather;
  return CheckModel(*device, reference, check);
}

absl::StatusOr<std::unique_ptr<LanguageModel>> Loading::Finish(Attention attention,
                                                               model::LoadReport* report) const {
  StepOptions options = OptionsFor(attention);
  const int64_t tokens =
      options_->model.pool_tokens > 0
          ? options_->model.pool_tokens
          : model::DefaultPoolTokens(TokenBytes(), files_.config.spec.context_length);
  options.pages = static_cast<int>((tokens + kPageTokens - 1) / kPageTokens);
  TANDEM_RETURN_IF_ERROR(CheckRoom(options.pages * int64_t{kPageTokens} * TokenBytes()));
  return Make(files_.config.spec, files_.tensors, options, report);
}

absl::StatusOr<std::unique_ptr<LanguageModel>> Loading::Make(const DecoderSpec& spec,
                                                             const DecoderTensors& tensors,
                                                             const StepOptions& options,
                                                             model::LoadReport* report) const {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Step> step, library_->make_step(options, spec, tensors));
  model::ModelInfo info;
  if (report != nullptr) {
    info = files_.Info();  // reads all weights
    report->dtype = options_->model.dtype;
    report->file_bytes = files_.bytes();
    report->weight_bytes = step->info().weight_bytes;
    report->exact = Exact(type_, files_);
    report->cache_bytes = options.pages * int64_t{kPageTokens} * TokenBytes();
  }
  info.vocabulary_size = static_cast<uint32_t>(spec.vocabulary_size);
  info.context_length = static_cast<uint32_t>(spec.context_length);
  info.numerics_id = NumericsId(*library_, options, step->info());
  return std::make_unique<TorchModel>(std::move(step), options.max_rows, options.pages,
                                      std::move(info));
}

StepOptions Loading::OptionsFor(Attention attention) const {
  const DecoderSpec& spec = files_.config.spec;
  StepOptions options;
  options.device = options_->device == kCuda ? "cuda" : "cpu";
  options.type = type_;
  options.attention = attention;
  options.tile = options_->tile;
  options.threads = options_->model.threads;
  options.max_rows = options_->model.max_rows;
  options.rope_frequencies = model::RopeFrequencies(spec.rope, spec.head_size);
  options.progress = options_->model.progress;
  return options;
}

int64_t Loading::TokenBytes() const {
  const DecoderSpec& spec = files_.config.spec;
  return int64_t{2} * spec.kv_size() * spec.layers * (type_ == ComputeType::kFloat32 ? 4 : 2);
}

// On a processor the device's memory is this process's.
absl::Status Loading::CheckRoom(int64_t cache_bytes) const {
  if (options_->device == kCuda) return absl::OkStatus();
  const Dtype held = type_ == ComputeType::kFloat32 ? Dtype::kFloat32 : Dtype::kBfloat16;
  std::vector<process::MemoryPart> need = model::MemoryNeed(
      files_.config.spec, files_.tensors, held, /*pool_tokens=*/0, options_->model.max_rows);
  for (process::MemoryPart& part : need) {
    if (part.name == "cache") part.bytes = cache_bytes;
  }
  need.push_back(process::ServiceRoom());
  return process::CheckMemory(options_->model.directory, need, process::ThisFreeMemory());
}

}  // namespace tandem::torch
