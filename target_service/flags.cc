#include "target_service/flags.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/speculation/candidate_tree.h"
#include "target_service/engines.h"
#include "torch/load_options.h"

namespace tandem::target_service {

Flags::Flags()
    : device(Engines().front().name),
      gpu_memory_utilization(target_service::EngineOptions().gpu_memory_utilization) {
  server.listen = "127.0.0.1:50052";
  load.threads = model::DefaultThreads(256);
}

void Flags::AddTo(flags::FlagSet& flags) {
  load.AddTo(
      flags,
      "directory with config.json, *.safetensors and tokenizer.json, or a GGUF file, or a name of "
      "the Hugging Face hub, OWNER/NAME[@REVISION] or OWNER/NAME:FILE.gguf; needed",
      "all cores that the scheduler and the control groups allow");
  flags.Choice("device", &device, EngineNames(),
               absl::StrCat("what computes the model: ", EngineSummaries()));
  flags.Real("gpu-memory-utilization", &gpu_memory_utilization, {0.05, 0.99},
             "with --device=cuda and --pool-tokens=0: the share of the card's free memory that "
             "weights, passes and the cache fill");
  flags.Switch("check-device", &check_device,
               "runs the self-check of --device with this model, prints what it found, and ends");
  flags.Choice(
      "generation-config", &generation_config, {"model", "none"},
      "whose sampling values are the defaults of requests that say nothing: model (those of "
      "the directory's generation_config.json; do_sample: false is temperature 0), or none");
  flags.Group("Sequences");
  flags.Number("max-sequences", &options.max_sequences, 1, 65536, "sequences held at once");
  flags.Number("max-draft-tokens", &options.max_draft_tokens, 1, 64, "candidates in a block");
  flags.Number("max-nodes", &options.max_nodes, 0, speculation::kMaxTreeNodes,
               "candidates in a tree; 0 = chains alone");
  flags.Duration("linger", &options.linger, absl::ZeroDuration(), absl::Hours(1),
                 "how long the sequences of a broken stream are kept for it to come back");
  flags.Group("Passes");
  flags.Number("prefill-rows", &options.prefill_rows, 1, 65536,
               "rows of a pass that long prompts may take while rounds wait");
  flags.Number("pass-rows", &options.pass_rows, 0, 65536,
               "rows that a pass aims at; 0 = as the measured cost of passes makes worth while");
  flags.Duration("measure", &options.measure, absl::ZeroDuration(), absl::Minutes(1),
                 "how long the cost of passes is measured at the start");
  server.AddTo(flags, "after SIGTERM open sequences may go on for this long");
}

absl::Status Flags::Validate() const {
  if (load.directory.empty()) return absl::InvalidArgumentError("--model=MODEL is needed");
  TANDEM_RETURN_IF_ERROR(EngineOptions().status());
  if (check_device && !EngineNamed(device).self_check) {
    std::vector<std::string> checked;
    for (const EngineFactory& engine : Engines()) {
      if (engine.self_check) checked.push_back(absl::StrCat("--device=", engine.name));
    }
    return flags::BadFlag("check-device", "true",
                          absl::StrCat("needs ", absl::StrJoin(checked, " or ")));
  }
  TANDEM_RETURN_IF_ERROR(server.Validate());
  return options.Validate();
}

absl::StatusOr<target_service::EngineOptions> Flags::EngineOptions() const {
  target_service::EngineOptions options;
  TANDEM_ASSIGN_OR_RETURN(options.model, load.Options());
  options.model.sampling_defaults = generation_config == "model";
  options.gpu_memory_utilization = *gpu_memory_utilization;
  options.card = torch::ParseDevice(device).card;
  return options;
}

}  // namespace tandem::target_service
