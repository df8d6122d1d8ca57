// Writes the fuzzer's seeds into its corpus folder: the first argument that is a folder.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path folder((*argv)[i]);
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) continue;
    const std::vector<std::string> seeds = tandem::fuzz::Seeds();
    for (size_t s = 0; s < seeds.size(); ++s) {
      std::ofstream file(folder / ("seed-" + std::to_string(s)), std::ios::binary);
      file << seeds[s];
      TANDEM_CHECK(file.flush().good()) << folder.string();
    }
    break;
  }
  return 0;
}
