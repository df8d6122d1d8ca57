// What the fuzzers share. Each defines LLVMFuzzerTestOneInput, which aborts when an invariant is
// broken (TANDEM_CHECK), and Seeds.
#pragma once

#include <string>
#include <vector>

namespace tandem::fuzz {

// Inputs to begin with: a few good ones, so that the fuzzer need not discover the format. They are
// written into the corpus folder that the command line names (seeds.cc).
std::vector<std::string> Seeds();

}  // namespace tandem::fuzz
