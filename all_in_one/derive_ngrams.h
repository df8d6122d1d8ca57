// `tandem-model derive-ngrams`: asks a model for its n-grams and writes them into a file, from
// which a draft service proposes without the model (draft_service/ngrams/derived_ngrams.h).
//
// Thread safety: plain values; DeriveNgrams is used by one thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/flags/flag_set.h"
#include "model/load_flags.h"

namespace tandem::all_in_one {

struct DeriveNgramsOptions {
  DeriveNgramsOptions();  // sets the threads by the machine's cores

  model::LoadFlags load;
  std::string device = "cpu";  // that computes the model (torch/load.h)
  std::string out;             // the file
  bool force = false;          // an existing file is replaced
  uint32_t successors = 8;
  uint32_t continuation = 4;  // tokens

  void AddTo(flags::FlagSet& flags);
  absl::Status Validate() const;  // INVALID_ARGUMENT names a bad flag. Looks at no file.
};

// Progress goes to standard error. What another run of the same model and shape has begun in
// OUT.partial is finished.
absl::Status DeriveNgrams(DeriveNgramsOptions options);

}  // namespace tandem::all_in_one
