#include "target_service/flags.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/speculation/candidate_tree.h"
#include "target_service/engines.h"
#include "torch/load_options.h"

namespace tandem::target_service {
namespace {

constexpr int kLongestBlock = 64;  // in draft tokens; its rows are in one pass

}  // namespace

Flags::Flags()
    : device(Engines().front().name),
      gpu_memory_utilization(target_service::EngineOptions().gpu_memory_utilization) {
  server.listen = "127.0.0.1:50052";
  load.threads = model::DefaultThreads(256);
}

void Flags::AddTo(flags::FlagSet& flags) {
  load.AddTo(
      flags,
      "a Hugging Face directory (config.json, *.safetensors, tokenizer.json), a GGUF file, or a "
      "model of the Hugging Face hub: OWNER/NAME[@REVISION] or OWNER/NAME:FILE.gguf. Required",
      "all cores that the scheduler and the control groups allow");
  flags.Choice("device", &device, EngineNames(),
               absl::StrCat("device that computes the model: ", EngineSummaries()));
  flags.Real("gpu-memory-utilization", &gpu_memory_utilization, {0.05, 0.99},
             "with --device=cuda and --pool-tokens=0: the share of the card's free memory for "
             "weights, passes and the KV cache");
  flags.Switch("mma-attention", &mma_attention,
               "with --device=cuda and bf16 or fp16: attend on tensor cores, if the self-check "
               "passes; the texts are others than without. Experimental: no card has run it");
  flags.Switch("check-device", &check_device,
               "run the self-check of --device with this model, print the result, and exit");
  flags.Choice(
      "generation-config", &generation_config, {"model", "none"},
      "source of the sampling defaults of requests: model (its generation_config.json; do_sample: "
      "false is temperature 0), or none");
  flags.Group("Sequences");
  flags.Number("max-sequences", &options.max_sequences, 1, 65536, "maximum number of sequences");
  flags.Number("max-draft-tokens", &options.max_draft_tokens, 1, kLongestBlock,
               "maximum number of draft tokens in a block");
  flags.Number("max-nodes", &options.max_nodes, 0, speculation::kMaxTreeNodes,
               "maximum number of draft tokens in a tree; 0 = chains only");
  flags.Duration("linger", &options.linger, absl::ZeroDuration(), absl::Hours(1),
                 "how long the sequences of a broken stream are kept for a reconnection");
  flags.Group("Passes");
  flags.Number("max-rows", &max_rows, kLongestBlock + 1, 65536,
               "maximum number of rows per pass: more read a long prompt in fewer passes, and "
               "take more memory");
  flags.Number("prefill-rows", &options.prefill_rows, 1, 65536,
               "maximum rows of a pass for long prompts while rounds wait");
  flags.Number("pass-rows", &options.pass_rows, 0, 65536,
               "target number of rows per pass; 0 = chosen by the measured cost of passes");
  flags.Duration("measure", &options.measure, absl::ZeroDuration(), absl::Minutes(1),
                 "how long the cost of passes is measured at startup");
  server.AddTo(flags, "time after SIGTERM for open sequences to finish");
}

absl::Status Flags::Validate() const {
  if (load.directory.empty()) return absl::InvalidArgumentError("--model=MODEL is required");
  TANDEM_RETURN_IF_ERROR(EngineOptions().status());
  if (check_device && !EngineNamed(device).self_check) {
    std::vector<std::string> checked;
    for (const EngineFactory& engine : Engines()) {
      if (engine.self_check) checked.push_back(absl::StrCat("--device=", engine.name));
    }
    return flags::BadFlag("check-device", "true",
                          absl::StrCat("needs ", absl::StrJoin(checked, " or ")));
  }
  if (mma_attention && torch::ParseDevice(device).device != torch::kCuda) {
    return flags::BadFlag("mma-attention", "true", "needs --device=cuda");
  }
  TANDEM_RETURN_IF_ERROR(server.Validate());
  return options.Validate();
}

absl::StatusOr<target_service::EngineOptions> Flags::EngineOptions() const {
  target_service::EngineOptions options;
  TANDEM_ASSIGN_OR_RETURN(options.model, load.Options());
  options.model.max_rows = max_rows;
  options.model.sampling_defaults = generation_config == "model";
  options.gpu_memory_utilization = *gpu_memory_utilization;
  options.mma_attention = mma_attention;
  options.card = torch::ParseDevice(device).card;
  return options;
}

}  // namespace tandem::target_service
