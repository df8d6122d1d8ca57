// NVIDIA's tools that scripts/setup put into the cache folder.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tandem::kernels {

// Where it is; empty: it is not there.
inline std::string CachedTool(const std::string& name) {
  std::filesystem::path cache;
  if (const char* own = std::getenv("TANDEM_CACHE"); own != nullptr) {
    cache = own;
  } else if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr) {
    cache = std::filesystem::path(xdg) / "tandem";
  } else if (const char* home = std::getenv("HOME"); home != nullptr) {
    cache = std::filesystem::path(home) / ".cache" / "tandem";
  }
  const std::filesystem::path tool = cache / name;
  return std::filesystem::exists(tool) ? tool.string() : "";
}

inline std::string NvrtcPath() { return CachedTool("nvrtc-13.0.88/libnvrtc.so.13"); }
inline std::string NvdisasmPath() { return CachedTool("nvdisasm-13.2.86/nvdisasm"); }

// A cubin as nvdisasm prints it.
inline std::string Disassembled(const std::string& cubin) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tandem-" + std::to_string(getpid()) + ".cubin");
  std::ofstream(path, std::ios::binary) << cubin;
  FILE* pipe = popen((NvdisasmPath() + " -c " + path.string()).c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string text;
  std::array<char, 65536> some;
  for (size_t read = 1; read > 0;) {
    read = fread(some.data(), 1, some.size(), pipe);
    text.append(some.data(), read);
  }
  EXPECT_EQ(pclose(pipe), 0);
  std::filesystem::remove(path);
  return text;
}

}  // namespace tandem::kernels
