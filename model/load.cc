#include "model/load.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/hub_cache.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/process/machine.h"
#include "common/process/room.h"
#include "model/config.h"
#include "model/content_hash.h"
#include "model/decoder.h"
#include "model/decoder_tensors.h"
#include "model/decoder_weights.h"
#include "model/files/checkpoint.h"
#include "model/generation_config.h"
#include "model/memory_need.h"
#include "model/page_pool.h"

namespace tandem::model {
namespace {

constexpr int64_t kDefaultPoolTokens = 65536;

int64_t PoolTokens(const DecoderSpec& spec, int64_t asked) {
  if (asked > 0) return asked;
  const process::FreeMemory free = process::ThisFreeMemory();
  const int64_t memory = std::min(free.memory_bytes, free.address_bytes);
  const int64_t token = PagePool::TokenBytes(spec.layers, spec.kv_heads, spec.head_size);
  return std::max<int64_t>(spec.context_length, std::min(kDefaultPoolTokens, memory / 4 / token));
}

absl::Status In(const std::string& directory, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(directory, ": ", status.message()));
}

}  // namespace

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
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

int DefaultThreads(int max) { return std::clamp(process::ThisMachine().cpus, 1, max); }

std::string LoadReport::Text() const {
  return absl::StrFormat(
      "loaded in %.2f s: weights %.1f MB (%.1f MB in the file, dtype %s%s), cache up to %.1f MB",
      seconds, static_cast<double>(weight_bytes) / 1e6, static_cast<double>(file_bytes) / 1e6,
      DtypeName(dtype), exact ? "" : ": rounded", static_cast<double>(cache_bytes) / 1e6);
}

absl::StatusOr<std::unique_ptr<LanguageModel>> Load(const LoadOptions& given) {
  const auto start = std::chrono::steady_clock::now();
  TANDEM_RETURN_IF_ERROR(given.Validate());
  LoadOptions options = given;
  TANDEM_ASSIGN_OR_RETURN(options.directory, base::SnapshotDirectory(given.directory));
  TANDEM_ASSIGN_OR_RETURN(const ModelConfig config, ReadConfig(options.directory));
  const DecoderSpec& spec = config.spec;
  TANDEM_RETURN_IF_ERROR(In(options.directory, Decoder::CheckSpec(spec)));
  ModelInfo info;
  info.eos_token_ids = config.eos_token_ids;
  if (options.sampling_defaults) {
    std::vector<std::string> unused;
    TANDEM_ASSIGN_OR_RETURN(info.sampling_defaults,
                            ReadSamplingDefaults(options.directory, &unused));
    if (!unused.empty()) {
      TANDEM_LOG(kWarning) << base::LogFields("generation_config_fields_unused")
                                  .Add("directory", options.directory)
                                  .Add("fields", absl::StrJoin(unused, ","));
    }
  }
  TANDEM_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(options.directory));
  const auto tensors = FindTensors(spec, config.family->tensors, checkpoint);
  TANDEM_RETURN_IF_ERROR(In(options.directory, tensors.status()));
  DecoderOptions decoder;
  decoder.threads = options.threads;
  decoder.max_rows = options.max_rows;
  decoder.compute = options.compute;
  decoder.pool_tokens = PoolTokens(spec, options.pool_tokens);
  std::vector<process::MemoryPart> need =
      MemoryNeed(spec, *tensors, options.dtype, decoder.pool_tokens, decoder.max_rows);
  need.push_back(process::ServiceRoom());
  TANDEM_RETURN_IF_ERROR(process::CheckMemory(options.directory, need, process::ThisFreeMemory()));
  DecoderWeights weights(spec, *tensors, options.dtype, options.progress);
  LoadReport report;
  report.dtype = options.dtype;
  for (const auto& [name, view] : checkpoint.tensors()) {
    report.file_bytes += static_cast<int64_t>(view.bytes);
  }
  report.weight_bytes = weights.bytes();
  report.exact = weights.exact();
  report.cache_bytes =
      decoder.pool_tokens * PagePool::TokenBytes(spec.layers, spec.kv_heads, spec.head_size);
  info.model_id = ModelId(config, checkpoint);
  auto model = std::make_unique<Decoder>(spec, std::move(weights), decoder, std::move(info));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report.seconds = took.count();
  if (options.report != nullptr) *options.report = report;
  return model;
}

}  // namespace tandem::model
