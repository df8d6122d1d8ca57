// Numbers of a benchmark's command line.
#pragma once

#include <cstdlib>
#include <vector>

namespace tandem::bench {

// Of argument `i`; without it `fallback`.
inline int NumberArgument(int argc, char** argv, int i, int fallback) {
  return argc > i ? std::atoi(argv[i]) : fallback;
}

// Of all arguments from `first` on.
inline std::vector<int> NumberArguments(int argc, char** argv, int first) {
  std::vector<int> numbers;
  for (int i = first; i < argc; ++i) numbers.push_back(std::atoi(argv[i]));
  return numbers;
}

}  // namespace tandem::bench
