#include "all_in_one/serve_options.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/address.h"
#include "common/base/status_macros.h"
#include "common/flags/nearest_name.h"
#include "common/process/machine.h"
#include "model/dtype.h"
#include "orchestrator/request_flags.h"
#include "target_service/engines.h"

namespace tandem::all_in_one {

ServeOptions::ServeOptions()
    : device(target_service::Engines().front().name),
      gpu_memory_utilization(target_service::EngineOptions().gpu_memory_utilization) {
  server.listen = "127.0.0.1:50050";
  threads = static_cast<uint64_t>(std::clamp(process::ThisMachine().cpus, 1, 256));
  draft_threads = std::min<uint64_t>(threads, 2);  // its passes are too short to divide further
}

void ServeOptions::AddTo(flags::FlagSet& flags) {
  flags.Group("Models");
  flags.Text(
      "target-model", &target_model,
      "a Hugging Face directory (config.json, *.safetensors, tokenizer.json), a GGUF file, or a "
      "model of the Hugging Face hub: OWNER/NAME[@REVISION] or OWNER/NAME:FILE.gguf. Required");
  flags.Text(
      "draft-model", &draft_model,
      "the draft model, in the same forms. Default: no model, only the drafters that work without "
      "one");
  flags.Text("chat-template", &chat_template_file,
             "file with the Jinja chat template. Default: the one of --target-model");
  flags.Choice(
      "device", &device, target_service::EngineNames(),
      absl::StrCat("device that computes the target: ", target_service::EngineSummaries()));
  flags.Choice("dtype", &dtype, model::DtypeNames(),
               "type of the target's weights in memory: auto (as in the file), fp32, bf16 or fp16 "
               "(rounded), int8 or int4 (with activations as int8, in groups of 32 inputs)");
  flags.Choice("draft-dtype", &draft_dtype, model::DtypeNames(), "the same for the draft");
  flags.Switch("offload", &offload,
               "keep weights of the target that do not fit into memory in the file, and read them "
               "there in each pass");
  flags.Choice("kv-cache-dtype", &cache_dtype, model::CacheDtypeNames(), model::CacheDtypeHelp());
  flags.Choice("draft-kv-cache-dtype", &draft_cache_dtype, model::CacheDtypeNames(),
               "the same for the draft");
  flags.Number("pool-tokens", &pool_tokens, 0, uint64_t{1} << 32,
               "the target's KV cache size, in tokens of all sequences together; 0 = as memory "
               "allows");
  flags.Number("draft-pool-tokens", &draft_pool_tokens, 0, uint64_t{1} << 32,
               "the same for the draft");
  flags.Number("max-rows", &max_rows, 65, 65536,
               "the target's maximum number of rows per pass: more read a long prompt in fewer "
               "passes, and take more memory");
  flags.Real("gpu-memory-utilization", &gpu_memory_utilization, {0.05, 0.99},
             "with --device=cuda and --pool-tokens=0: the share of the card's free memory for the "
             "target's weights, passes and KV cache");
  flags.Choice("generation-config", &generation_config, {"model", "none"},
               "source of the sampling defaults of requests: model (its generation_config.json) "
               "or none");
  flags.Text(
      "drafter", &drafter,
      "default drafter of requests: model, cascade, lookup-first, prompt-lookup, context-ngram, or "
      "one that a flag below adds; or several, separated by commas, or auto for all of them: each "
      "text then uses the one with the highest throughput. Default: model with --draft-model, "
      "else prompt-lookup");
  text_drafters.AddTo(flags);
  flags.Number(
      "threads", &threads, 1, 256,
      "threads of the target's passes. Default: all cores, which the passes of both models share");
  flags.Number("draft-threads", &draft_threads, 1, 256,
               "threads of the draft's passes. Default: 2, or 1 on one core");
  flags.Group("Sequences");
  flags.Number("max-sequences", &max_sequences, 1, 65536,
               "maximum number of sequences at the target");
  orchestrator::AddRequestFlags(front, flags);
  server.AddTo(flags, "time after SIGTERM for running requests to finish");
  http.AddTo(flags, &front.served_model_name);
  flags.Group("Callers, and the services behind");
  flags.Text("token-file", &front.token_file,
             "file with the tokens of the callers, one per line; read again when it changes. "
             "Default: no token is required");
  flags.Text("draft-listen", &draft_listen, "HOST:PORT of the draft service; port 0: any free one");
  flags.Text("target-listen", &target_listen,
             "HOST:PORT of the target service; port 0: any free one");
}

// Drafters that need --draft-model.
const std::vector<std::string> kWithModel = {"model", "cascade", "lookup-first"};

absl::Status ServeOptions::Validate() const {
  if (target_model.empty()) {
    return absl::InvalidArgumentError(
        "--target-model=MODEL is required: a directory with config.json, *.safetensors and "
        "tokenizer.json, for example");
  }
  const auto use = base::AddressUse::kListen;
  TANDEM_RETURN_IF_ERROR(server.Validate());
  TANDEM_RETURN_IF_ERROR(http.Validate());
  TANDEM_RETURN_IF_ERROR(base::ParseAddress("--draft-listen", draft_listen, use).status());
  TANDEM_RETURN_IF_ERROR(base::ParseAddress("--target-listen", target_listen, use).status());
  orchestrator::Options checked = front;
  checked.target_addresses = {"127.0.0.1:1"};  // in place of the channel that ModelServer sets
  checked.tokenizer_directory = target_model;
  TANDEM_RETURN_IF_ERROR(checked.Validate());
  const std::vector<std::string> wanted = absl::StrSplit(drafter, ',', absl::SkipEmpty());
  std::vector<std::string> names = text_drafters.Names();
  if (!draft_model.empty()) names.insert(names.begin(), kWithModel.begin(), kWithModel.end());
  for (const std::string& one : wanted) {
    const bool with_model =
        std::find(kWithModel.begin(), kWithModel.end(), one) != kWithModel.end();
    if (with_model && draft_model.empty()) {
      return flags::BadFlag("drafter", one, "needs --draft-model=DIR");
    }
    if (drafter == "auto" || std::find(names.begin(), names.end(), one) != names.end()) continue;
    return flags::BadFlag("drafter", one,
                          absl::StrCat("must be auto, or one of ", absl::StrJoin(names, ", "),
                                       flags::DidYouMean(one, names)));
  }
  return absl::OkStatus();
}

}  // namespace tandem::all_in_one
