#include "draft_service/flags.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/flags/nearest_name.h"

namespace tandem::draft_service {

Flags::Flags() {
  server.listen = "127.0.0.1:50051";
  load.threads = model::DefaultThreads(2);
}

void Flags::AddTo(flags::FlagSet& flags) {
  load.AddTo(
      flags,
      "directory with config.json, *.safetensors and tokenizer.json, or a GGUF file, or a name of "
      "the Hugging Face hub, OWNER/NAME[@REVISION] or OWNER/NAME:FILE.gguf; without it there are "
      "only the drafters that need none, and "
      "--tokenizer is needed",
      "two, where there are as many cores: a small model's passes are too short to divide "
      "further");
  flags.Choice("device", &device, {"cpu", "torch-cpu", "cuda", "cuda:N"},
               "what computes the model: cpu (own kernels), torch-cpu or cuda (LibTorch, which "
               "libtandem_torch.so brings)");
  flags.Text(
      "tokenizer", &tokenizer,
      "directory with tokenizer.json, or a GGUF file, or a name as --model takes; needed without "
      "--model, and with one whose directory has no tokenizer.json: give the target's");
  flags.Group("Drafts");
  flags.Text("drafter", &options.default_drafter,
             "for requests that name none: model, cascade, lookup-first, prompt-lookup, "
             "context-ngram, or one that a flag below brings; when absent, model if there is one, "
             "else prompt-lookup");
  text.AddTo(flags);
  flags.Choice(
      "proposal", &proposal, {"sampled", "greedy"},
      "how the model proposes to requests that do not say: sampled (from its own top-m, sent "
      "as q) or greedy (one-hot)");
  flags.Number("top-m", &drafter.top_m, 1, 64, "entries of q");
  flags.Group("Sequences");
  flags.Number("max-sequences", &options.max_sequences, 1, 65536, "sequences held at once");
  flags.Number(
      "pass-rows", &options.pass_rows, 0, 65536,
      "the most rows of one pass of the model, which all sequences that are drafted or read "
      "share; 0 = as many as pay on this machine, by the time that passes take");
  server.AddTo(
      flags,
      "after SIGTERM blocks that were asked for may be drafted for this long; sequences go to "
      "another draft at once");
}

absl::Status Flags::Validate() const {
  if (!with_model() && tokenizer.empty()) {
    return absl::InvalidArgumentError("--model=MODEL or --tokenizer=MODEL is needed");
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
