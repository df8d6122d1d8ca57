// The options of `tandem pull`.
//
// Thread safety: plain values.
#pragma once

#include <string>

#include "common/flags/flag_set.h"
#include "common/hub/repository_files.h"

namespace tandem::client {

struct PullOptions {
  std::string name;  // OWNER/NAME[@REVISION]; empty: not given
  bool tokenizer_only = false;

  void AddTo(flags::FlagSet& flags);
  hub::Need need() const { return tokenizer_only ? hub::Need::kTokenizer : hub::Need::kModel; }
};

}  // namespace tandem::client
