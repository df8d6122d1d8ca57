#include "model/load.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/process/machine.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/content_hash.h"
#include "model/generation_config.h"
#include "model/span_pool.h"
#include "model/llama.h"
#include "model/llama_weights.h"
#include "model/weights.h"

namespace tandem::model {
namespace {

constexpr int64_t kDefaultPoolTokens = 65536;

int64_t PoolTokens(const LlamaConfig& config, int64_t asked) {
  if (asked > 0) return asked;
  const int64_t memory = process::ThisMachine().memory_bytes;
  const int64_t token = SpanPool::TokenBytes(config.layers, config.kv_heads, config.head_size);
  return std::max<int64_t>(config.context_length, std::min(kDefaultPoolTokens, memory / 4 / token));
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

absl::StatusOr<std::unique_ptr<LanguageModel>> Load(const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  TANDEM_RETURN_IF_ERROR(options.Validate());
  TANDEM_ASSIGN_OR_RETURN(LlamaConfig config, ReadConfig(options.directory));
  if (options.sampling_defaults) {
    TANDEM_ASSIGN_OR_RETURN(config.sampling_defaults, ReadSamplingDefaults(options.directory));
  }
  TANDEM_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(options.directory));
  auto views = FindLlamaTensors(config, checkpoint);
  if (!views.ok()) {
    return absl::Status(views.status().code(),
                        absl::StrCat(options.directory, ": ", views.status().message()));
  }
  LlamaOptions llama;
  llama.threads = options.threads;
  llama.max_rows = options.max_rows;
  llama.compute = options.compute;
  llama.pool_tokens = PoolTokens(config, options.pool_tokens);
  LlamaWeights weights(config, *views, options.dtype, options.progress);
  LoadReport report;
  report.dtype = options.dtype;
  for (const auto& [name, view] : checkpoint.tensors()) {
    report.file_bytes += static_cast<int64_t>(view.bytes);
  }
  report.weight_bytes = weights.bytes();
  report.exact = weights.exact();
  report.cache_bytes =
      llama.pool_tokens * SpanPool::TokenBytes(config.layers, config.kv_heads, config.head_size);
  auto model =
      std::make_unique<Llama>(config, std::move(weights), llama, ModelId(config, checkpoint));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report.seconds = took.count();
  if (options.report != nullptr) *options.report = report;
  return model;
}

}  // namespace tandem::model
