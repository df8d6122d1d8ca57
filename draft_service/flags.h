// What tandem-draft is told on its command line.
//
// Thread safety: plain values.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/flags/flag_set.h"
#include "common/transport/server_flags.h"
#include "draft_service/drafters/model_drafter.h"
#include "draft_service/serving/options.h"
#include "draft_service/text_drafters.h"
#include "model/load_flags.h"

namespace tandem::draft_service {

struct Flags {
  Flags();  // threads follow the machine

  transport::ServerFlags server;
  model::LoadFlags load;             // its directory is empty where there is no model
  std::string device = "cpu";        // that computes the model (torch/load.h)
  std::string tokenizer;             // a directory; empty: the model's own
  std::string proposal = "sampled";  // of the model: sampled or greedy
  TextDrafterOptions text;           // the drafters without a model
  ModelDrafterOptions drafter;       // of these, what other flags say
  Options options;                   // the same

  void AddTo(flags::FlagSet& flags);
  // INVALID_ARGUMENT naming each bad flag. Looks at no file, no port.
  absl::Status Validate() const;

  bool with_model() const { return !load.directory.empty(); }
  absl::StatusOr<model::LoadOptions> LoadOptions() const;
  absl::StatusOr<ModelDrafterOptions> DrafterOptions() const;
};

}  // namespace tandem::draft_service
