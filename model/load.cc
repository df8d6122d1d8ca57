#include "model/load.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/process/machine.h"
#include "common/process/room.h"
#include "model/cpu/int8.h"
#include "model/decoder.h"
#include "model/decoder_weights.h"
#include "model/memory_need.h"
#include "model/model_files.h"
#include "model/offload.h"
#include "model/page_pool.h"

namespace tandem::model {

absl::Status CheckDtype(const ModelConfig& config, Dtype dtype) {
  if (config.int8_weights && dtype != Dtype::kAuto && dtype != Dtype::kInt8 &&
      dtype != Dtype::kInt8ByRow) {
    return absl::InvalidArgumentError(
        absl::StrCat("the weights are int8 in the file, dtype is ", DtypeName(dtype),
                     "; give auto or int8, or the model that they were made from"));
  }
  const bool int8 = config.int8_weights || dtype == Dtype::kInt8ByRow;
  const DecoderSpec& spec = config.spec;
  const int inputs = std::max({spec.hidden_size, spec.q_size(), spec.intermediate_size});
  if (!int8 || inputs <= cpu::kMaxInt8Inputs) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a layer has ", inputs, " inputs; dtype int8 takes ", cpu::kMaxInt8Inputs, " at most"));
}

absl::Status CheckWholeOutput(const ModelConfig& config) {
  if (config.spec.draft_vocabulary_size == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "its output was pruned to ", config.spec.draft_vocabulary_size, " of ",
      config.spec.vocabulary_size,
      " tokens (draft_vocab_size, by `tandem prune-vocabulary`), so it serves as a draft on "
      "--device=cpu alone; give the model that it was made from"));
}

absl::Status LoadOptions::Validate() const {
  std::vector<std::string> problems;
  if (directory.empty()) problems.push_back("directory is empty");
  if (threads < 1 || threads > 256) {
    problems.push_back(absl::StrCat("threads is ", threads, "; 1 to 256"));
  }
  if (max_rows < 1 || max_rows > 65536) {
    problems.push_back(absl::StrCat("max_rows is ", max_rows, "; 1 to 65536"));
  }
  if (pool_tokens < 0 || pool_tokens > (int64_t{1} << 32)) {
    problems.push_back(absl::StrCat("pool_tokens is ", pool_tokens, "; 0 to 4294967296"));
  }
  if (cache_dtype != Dtype::kAuto && cache_dtype != Dtype::kFloat32 &&
      cache_dtype != Dtype::kBfloat16) {
    problems.push_back(
        absl::StrCat("cache_dtype is ", DtypeName(cache_dtype), "; auto, fp32 or bf16"));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

int DefaultThreads(int max) { return std::clamp(process::ThisMachine().cpus, 1, max); }

std::string LoadReport::Text() const {
  const std::string in_file =
      offloaded_bytes == 0
          ? ""
          : absl::StrFormat("; %.1f MB of weights stay in the file, and each pass reads them there",
                            static_cast<double>(offloaded_bytes) / 1e6);
  std::vector<std::string> times;
  for (const auto& [name, took] : phases) times.push_back(absl::StrFormat("%s %.2f", name, took));
  const std::string in_phases =
      times.empty() ? "" : absl::StrCat(" (", absl::StrJoin(times, ", "), ")");
  return absl::StrFormat(
      "loaded in %.2f s%s: weights %.1f MB (%.1f MB in the file, dtype %s%s), cache of %d tokens "
      "up "
      "to %.1f MB%s",
      seconds, in_phases, static_cast<double>(weight_bytes) / 1e6,
      static_cast<double>(file_bytes) / 1e6, DtypeName(dtype), exact ? "" : ": rounded",
      cache_tokens, static_cast<double>(cache_bytes) / 1e6, in_file);
}

namespace {

// All that is known of a load before anything of it takes long.
struct Plan {
  std::shared_ptr<const ModelFiles> files;
  DecoderOptions decoder;
  Offload offload;
  int64_t token_bytes = 0;
  int64_t bytes = 0;  // of weights, cache and activations
};

absl::StatusOr<Plan> MakePlan(const LoadOptions& options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  TANDEM_ASSIGN_OR_RETURN(
      ModelFiles read_files,
      ReadModelFiles(options.directory, options.sampling_defaults, [&](const ModelConfig& read) {
        TANDEM_RETURN_IF_ERROR(Decoder::CheckSpec(read.spec));
        if (!options.draft) TANDEM_RETURN_IF_ERROR(CheckWholeOutput(read));
        return CheckDtype(read, options.dtype);
      }));
  Plan plan;
  plan.files = std::make_shared<const ModelFiles>(std::move(read_files));
  const ModelFiles& files = *plan.files;
  const DecoderSpec& spec = files.config.spec;
  DecoderOptions& decoder = plan.decoder;
  decoder.threads = options.threads;
  decoder.max_rows = options.max_rows;
  decoder.compute = options.compute;
  if (options.cache_dtype == Dtype::kBfloat16) decoder.cache_type = cpu::WeightType::kBfloat16;
  plan.token_bytes =
      PagePool::TokenBytes(spec.layers, spec.kv_heads, {spec.head_size, decoder.cache_type});
  process::FreeMemory free = process::ThisFreeMemory();
  // What the process holds already, and what others of it have reserved.
  free.memory_bytes -= process::WrittenMemory() + options.reserved_bytes;
  const auto need = [&](int64_t pool_tokens) {
    std::vector<process::MemoryPart> parts = MemoryNeed(
        spec, files.tensors, options.dtype, pool_tokens, decoder.max_rows, decoder.cache_type);
    parts.push_back(process::ServiceRoom());
    return parts;
  };
  decoder.pool_tokens = options.pool_tokens;
  if (decoder.pool_tokens == 0) {
    std::vector<process::MemoryPart> others = need(0);
    if (options.offload) others.erase(others.begin());  // the weights give way
    decoder.pool_tokens = DefaultPoolTokens(plan.token_bytes, spec.context_length, others, free);
  }
  const std::vector<process::MemoryPart> parts = need(decoder.pool_tokens);
  for (const process::MemoryPart& part : parts) plan.bytes += part.is_written ? part.bytes : 0;
  if (!options.offload) {
    const int rows = options.draft ? 0 : options.max_rows;
    TANDEM_RETURN_IF_ERROR(
        CheckRoom(options.directory, parts, plan.token_bytes, spec.context_length, rows, free));
    return plan;
  }
  TANDEM_ASSIGN_OR_RETURN(
      plan.offload, PlanOffload(options.directory, files.tensors, options.dtype, parts, free));
  if (plan.offload.any()) plan.offload.files = {plan.files, &files.checkpoint};
  return plan;
}

}  // namespace

absl::StatusOr<int64_t> CheckLoad(const LoadOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(const Plan plan, MakePlan(options));
  return plan.bytes;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> Load(const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  TANDEM_ASSIGN_OR_RETURN(const Plan plan, MakePlan(options));
  const ModelFiles& files = *plan.files;
  const DecoderSpec& spec = files.config.spec;
  TANDEM_ASSIGN_OR_RETURN(ModelInfo info, files.Info(options.dtype));
  DecoderWeights weights(spec, files.tensors, options.dtype, options.progress, plan.offload);
  LoadReport report;
  report.dtype = options.dtype;
  report.file_bytes = files.bytes();
  report.weight_bytes = weights.bytes();
  report.offloaded_bytes = weights.file_bytes();
  report.exact = weights.exact();
  report.cache_tokens = plan.decoder.pool_tokens;
  report.cache_bytes = plan.decoder.pool_tokens * plan.token_bytes;
  auto model = std::make_unique<Decoder>(spec, std::move(weights), plan.decoder, std::move(info));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report.seconds = took.count();
  if (options.report != nullptr) *options.report = report;
  return model;
}

}  // namespace tandem::model
