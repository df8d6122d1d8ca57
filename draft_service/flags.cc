#include "draft_service/flags.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/flags/nearest_name.h"
#include "draft_service/drafters/lookup_first.h"

namespace tandem::draft_service {

Flags::Flags() {
  server.listen = "127.0.0.1:50051";
  load.threads = model::DefaultThreads(2);
}

void Flags::AddTo(flags::FlagSet& flags) {
  load.AddTo(
      flags,
      "a Hugging Face directory (config.json, *.safetensors, tokenizer.json), a GGUF file, or a "
      "model of the Hugging Face hub: OWNER/NAME[@REVISION] or OWNER/NAME:FILE.gguf. Default: no "
      "model, only the drafters that work without one; --tokenizer is then required",
      "2, or 1 on one core: a small model's passes are too short to divide further");
  flags.Choice("device", &device, {"cpu", "torch-cpu", "cuda", "cuda:N"},
               "device that computes the model: cpu (Tandem's kernels), torch-cpu or cuda "
               "(LibTorch, by libtandem_torch.so)");
  flags.Text(
      "tokenizer", &tokenizer,
      "a directory with tokenizer.json, a GGUF file, or a model of the hub, usually the target's. "
      "Required without --model, and if its directory has no tokenizer.json");
  flags.Group("Drafts");
  flags.Text("drafter", &options.default_drafter,
             "default drafter of requests: model, cascade, lookup-first, prompt-lookup, "
             "context-ngram, or one that a flag below adds. Default: model with --model, else "
             "prompt-lookup");
  text.AddTo(flags);
  flags.Choice(
      "proposal", &proposal, {"sampled", "greedy"},
      "how the model proposes unless the request says: sampled (from its top-m, sent as q) or "
      "greedy (one-hot)");
  flags.Number("top-m", &drafter.top_m, 1, 64,
               "tokens of the draft's distribution q that are sampled from and sent");
  flags.Group("Sequences");
  flags.Number("max-sequences", &options.max_sequences, 1, 65536, "maximum number of sequences");
  flags.Number(
      "pass-rows", &options.pass_rows, 0, 65536,
      "maximum rows of a pass of the model, shared by all sequences; 0 = chosen by the measured "
      "time of passes");
  server.AddTo(
      flags,
      "time after SIGTERM to draft the blocks that were requested; sequences move to another "
      "draft immediately");
}

absl::Status Flags::Validate() const {
  if (!with_model() && tokenizer.empty()) {
    return absl::InvalidArgumentError("--model=MODEL or --tokenizer=MODEL is required");
  }
  TANDEM_ASSIGN_OR_RETURN(const ModelDrafterOptions model, DrafterOptions());
  if (with_model()) TANDEM_RETURN_IF_ERROR(LoadOptions().status());
  TANDEM_RETURN_IF_ERROR(server.Validate());
  // The drafters that there will be, by name.
  Options checked = options;
  checked.vocabulary_size = 1;
  if (with_model()) {
    checked.drafters.push_back({model.name, {}});
    checked.drafters.push_back({CascadeOptions::kName, {}});
    checked.drafters.push_back({kLookupFirst, {}});
  }
  for (std::string& name : text.Names()) checked.drafters.push_back({std::move(name), {}});
  std::vector<std::string> names;
  for (const DrafterFactory& factory : checked.drafters) names.push_back(factory.name);
  const std::string& wanted = options.default_drafter;
  if (!wanted.empty() && std::find(names.begin(), names.end(), wanted) == names.end()) {
    return flags::BadFlag("drafter", wanted,
                          absl::StrCat("must be one of ", absl::StrJoin(names, ", "),
                                       flags::DidYouMean(wanted, names)));
  }
  return checked.Validate();
}

absl::StatusOr<model::LoadOptions> Flags::LoadOptions() const {
  TANDEM_ASSIGN_OR_RETURN(model::LoadOptions options, load.Options());
  options.sampling_defaults = false;  // they come with each request
  options.draft = true;
  return options;
}

absl::StatusOr<ModelDrafterOptions> Flags::DrafterOptions() const {
  ModelDrafterOptions options = drafter;
  TANDEM_ASSIGN_OR_RETURN(options.proposal, ParseProposal(proposal));
  TANDEM_RETURN_IF_ERROR(options.Validate());
  return options;
}

}  // namespace tandem::draft_service
