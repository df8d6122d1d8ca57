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
#include "model/page_pool.h"

namespace tandem::model {
absl::Status CheckDtype(const DecoderSpec& spec, Dtype dtype) {
  const int inputs = std::max({spec.hidden_size, spec.q_size(), spec.intermediate_size});
  if (dtype != Dtype::kInt8 || inputs <= cpu::kMaxInt8Inputs) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a layer has ", inputs, " inputs; dtype int8 takes ", cpu::kMaxInt8Inputs, " at most"));
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
  TANDEM_ASSIGN_OR_RETURN(
      const ModelFiles files,
      ReadModelFiles(options.directory, options.sampling_defaults, [&](const DecoderSpec& read) {
        TANDEM_RETURN_IF_ERROR(Decoder::CheckSpec(read));
        return CheckDtype(read, options.dtype);
      }));
  const DecoderSpec& spec = files.config.spec;
  DecoderOptions decoder;
  decoder.threads = options.threads;
  decoder.max_rows = options.max_rows;
  decoder.compute = options.compute;
  const int64_t token_bytes = PagePool::TokenBytes(spec.layers, spec.kv_heads, spec.head_size);
  decoder.pool_tokens = options.pool_tokens > 0
                            ? options.pool_tokens
                            : DefaultPoolTokens(token_bytes, spec.context_length);
  std::vector<process::MemoryPart> need =
      MemoryNeed(spec, files.tensors, options.dtype, decoder.pool_tokens, decoder.max_rows);
  need.push_back(process::ServiceRoom());
  TANDEM_RETURN_IF_ERROR(process::CheckMemory(options.directory, need, process::ThisFreeMemory()));
  DecoderWeights weights(spec, files.tensors, options.dtype, options.progress);
  LoadReport report;
  report.dtype = options.dtype;
  report.file_bytes = files.bytes();
  report.weight_bytes = weights.bytes();
  report.exact = weights.exact();
  report.cache_bytes = decoder.pool_tokens * token_bytes;
  auto model = std::make_unique<Decoder>(spec, std::move(weights), decoder, files.Info());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report.seconds = took.count();
  if (options.report != nullptr) *options.report = report;
  return model;
}

}  // namespace tandem::model
