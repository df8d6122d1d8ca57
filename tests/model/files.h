// Model directories made by a test: a copy of a golden model with something changed.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/paths.h"

namespace tandem::model::testing {

inline std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// header as JSON text or anything else, then data; what a safetensors file is made of.
inline std::string Safetensors(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

// A directory of this test's own, removed at the end.
class TemporaryDirectory {
 public:
  // `part`: of a test with several.
  explicit TemporaryDirectory(const std::string& part = "") {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name() + part;
    for (char& c : name) c = c == '/' ? '_' : c;
    path_ = (std::filesystem::temp_directory_path() /
             ("tandem_" + name + "_" + std::to_string(getpid())))
                .string();
    std::filesystem::create_directories(path_);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  // The golden model `variant`, to be changed.
  void CopyModel(const std::string& variant) const {
    const std::string from = tandem::testing::SourcePath("tests/model/goldens/") + variant;
    for (const auto& entry : std::filesystem::directory_iterator(from)) {
      if (entry.is_regular_file()) {
        WriteBytes(file(entry.path().filename().string()), ReadBytes(entry.path().string()));
      }
    }
  }

  void EditJson(const std::string& name, const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json json = nlohmann::json::parse(ReadBytes(file(name)));
    change(json);
    WriteBytes(file(name), json.dump());
  }

  // Changes the header of model.safetensors; the tensors' bytes stay.
  void EditHeader(const std::function<void(nlohmann::json&)>& change) const {
    std::string bytes = ReadBytes(file("model.safetensors"));
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
    change(header);
    WriteBytes(file("model.safetensors"), Safetensors(header.dump(), bytes.substr(8 + length)));
  }

 private:
  std::string path_;
};

}  // namespace tandem::model::testing
