// Flags of a process that loads one model.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/flags/flag_set.h"
#include "model/load.h"

namespace tandem::model {

struct LoadFlags {
  std::string directory;  // --model
  std::string dtype = "auto";
  std::string cache_dtype = "auto";  // of keys and values
  bool offload = false;
  int threads = 1;          // 1 to 256
  int64_t pool_tokens = 0;  // 0: as the memory allows

  // `model_help`: what the model is for. `threads_help`: how many there are when nothing is said.
  // `pool_help`: what 0 tokens of the pool mean.
  void AddTo(flags::FlagSet& flags, absl::string_view model_help, absl::string_view threads_help,
             absl::string_view pool_help = "as the memory allows");
  // INVALID_ARGUMENT naming each bad value. Looks at no file.
  absl::StatusOr<LoadOptions> Options() const;
};

}  // namespace tandem::model
