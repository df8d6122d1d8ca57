// A folder of this process's own for readers that want files, removed at the end.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "common/base/check.h"

namespace tandem::fuzz {

class Scratch {
 public:
  Scratch() {
    // Memory, where the machine has it: a fuzzer writes thousands of files per second.
    std::error_code ignored;
    const std::filesystem::path memory = "/dev/shm";
    const std::filesystem::path base = std::filesystem::is_directory(memory, ignored)
                                           ? memory
                                           : std::filesystem::temp_directory_path();
    std::string name = (base / "tandem-fuzz.XXXXXX").string();
    TANDEM_CHECK(mkdtemp(name.data()) != nullptr) << name;
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  void Write(const std::string& name, std::string_view bytes) const {
    std::ofstream file(path_ + "/" + name, std::ios::binary);
    file << bytes;
    TANDEM_CHECK(file.flush().good()) << path_ << "/" << name;
  }
  void Remove(const std::string& name) const { std::filesystem::remove(path_ + "/" + name); }

 private:
  std::string path_;
};

}  // namespace tandem::fuzz
