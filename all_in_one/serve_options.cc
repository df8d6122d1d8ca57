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
      "a Hugging Face directory or a GGUF file, or a name of the hub, OWNER/NAME[@REVISION] or "
      "OWNER/NAME:FILE.gguf; needed");
  flags.Text(
      "draft-model", &draft_model,
      "the same with a smaller model; without it drafts come from the drafters that need none");
  flags.Text("chat-template", &chat_template_file,
             "file with the Jinja template of conversations. Default: that of --target-model");
  flags.Choice("device", &device, target_service::EngineNames(),
               absl::StrCat("what computes the target: ", target_service::EngineSummaries()));
  flags.Choice(
      "dtype", &dtype, model::DtypeNames(),
      "what the target's weights are held as: auto (as the file has them), fp32, bf16 or fp16 "
      "(rounded), int8 or int4 (activations as int8, too, by 32 inputs)");
  flags.Choice("draft-dtype", &draft_dtype, model::DtypeNames(), "the same for the draft's");
  flags.Switch("offload", &offload,
               "weights of the target that do not fit into memory stay in the file, and each pass "
               "reads them there");
  flags.Choice("kv-cache-dtype", &cache_dtype, model::CacheDtypeNames(), model::CacheDtypeHelp());
  flags.Choice("draft-kv-cache-dtype", &draft_cache_dtype, model::CacheDtypeNames(),
               "the same for the draft's");
  flags.Number("pool-tokens", &pool_tokens, 0, uint64_t{1} << 32,
               "tokens that all of the target's sequences together may hold; 0 = as the memory "
               "allows");
  flags.Number("draft-pool-tokens", &draft_pool_tokens, 0, uint64_t{1} << 32,
               "the same for the draft's");
  flags.Real("gpu-memory-utilization", &gpu_memory_utilization, {0.05, 0.99},
             "with --device=cuda and --pool-tokens=0: the share of the card's free memory that the "
             "target's weights, passes and cache fill");
  flags.Choice("generation-config", &generation_config, {"model", "none"},
               "sampling defaults of requests: model (its generation_config.json) or none");
  flags.Text(
      "drafter", &drafter,
      "the one that requests get that name none: model, cascade, lookup-first, prompt-lookup, "
      "context-ngram, or "
      "one that a flag below brings; several, separated by commas, or auto, all of them: then each "
      "text gets the one with the most tokens a time");
  text_drafters.AddTo(flags);
  flags.Number(
      "threads", &threads, 1, 256,
      "of the target's passes; all cores when absent. Together the two models' passes never take "
      "more than the cores there are");
  flags.Number("draft-threads", &draft_threads, 1, 256, "of the draft's; two when absent");
  flags.Group("Sequences");
  flags.Number("max-sequences", &max_sequences, 1, 65536,
               "sequences that the target holds at once");
  orchestrator::AddRequestFlags(front, flags);
  server.AddTo(flags, "after SIGTERM running requests may finish within this");
  http.AddTo(flags, &front.served_model_name);
  flags.Group("Callers, and the services behind");
  flags.Text("token-file", &front.token_file,
             "tokens of those who may call, one a line; everybody when absent");
  flags.Text("draft-listen", &draft_listen, "the draft service's own port; 0: any free one");
  flags.Text("target-listen", &target_listen, "the target service's own port; 0: any free one");
}

// Drafters that need --draft-model.
const std::vector<std::string> kWithModel = {"model", "cascade", "lookup-first"};

absl::Status ServeOptions::Validate() const {
  if (target_model.empty()) {
    return absl::InvalidArgumentError(
        "give the model to serve, --target-model=DIR: a folder with config.json, *.safetensors and "
        "tokenizer.json");
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
