// The options of `tandem pull`.
//
// Thread safety: plain values.
#pragma once

#include "common/flags/flag_set.h"
#include "common/hub/repository_files.h"

namespace tandem::client {

struct PullOptions {
  bool tokenizer_only = false;

  void AddTo(flags::FlagSet& flags);
  hub::Need need() const { return tokenizer_only ? hub::Need::kTokenizer : hub::Need::kModel; }
};

}  // namespace tandem::client
