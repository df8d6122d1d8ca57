#include "torch/kernels/cubin_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace tandem::kernels {
namespace {

namespace fs = std::filesystem;

// FNV-1a. Tells accidents apart, not attacks: the folder is the user's own.
uint64_t Hash(absl::string_view text, uint64_t seed) {
  uint64_t hash = 0xcbf2'9ce4'8422'2325 ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  return hash;
}

std::string Digest(absl::string_view text) {
  return absl::StrFormat("%016x%016x", Hash(text, 0), Hash(text, 0x9e37'79b9'7f4a'7c15));
}

constexpr size_t kDigestBytes = 32;  // a file begins with the digest of the rest

}  // namespace

fs::path CubinCache::DefaultFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] != '\0') return fs::path(cache) / "tandem" / "kernels";
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] == '\0') return {};
  return fs::path(home) / ".cache" / "tandem" / "kernels";
}

CubinCache::CubinCache(fs::path folder, int64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {}

std::string CubinCache::Key(const KernelProgram& program, int architecture,
                            absl::string_view compiler_version) {
  std::string all = absl::StrCat(compiler_version, "\n");
  for (const std::string& option : NvrtcCompiler::Options(architecture)) {
    absl::StrAppend(&all, option, "\n");
  }
  const auto add = [&](const SourceFile& file) {
    absl::StrAppend(&all, file.name, "\n", std::string(file.text).size(), "\n", file.text);
  };
  add(program.source);
  for (const SourceFile& header : KernelHeaders()) add(header);
  return absl::StrCat(fs::path(program.source.name).stem().string(), "-sm", architecture, "-",
                      Digest(all), ".cubin");
}

std::optional<std::string> CubinCache::Find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(folder_ / key, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream read;
  read << file.rdbuf();
  std::string content = std::move(read).str();
  if (content.size() < kDigestBytes) return std::nullopt;
  std::string cubin = content.substr(kDigestBytes);
  if (content.substr(0, kDigestBytes) != Digest(cubin)) return std::nullopt;
  std::error_code ignored;  // its time says when it was used last
  fs::last_write_time(folder_ / key, fs::file_time_type::clock::now(), ignored);
  return cubin;
}

void CubinCache::Keep(const std::string& key, absl::string_view cubin) const {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  // Whole or not at all, whoever reads it meanwhile.
  const fs::path partial = folder_ / absl::StrCat(key, ".partial.", getpid());
  {
    std::ofstream file(partial, std::ios::binary);
    file << Digest(cubin) << cubin;
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(partial, folder_ / key, error);
  if (error) {
    TANDEM_LOG(kWarning) << "compiled kernels cannot be kept in " << folder_.string() << ": "
                         << error.message() << "; they will be compiled at every start";
    fs::remove(partial, error);
    return;
  }
  DropOldest();
}

void CubinCache::DropOldest() const {
  struct File {
    fs::path path;
    fs::file_time_type used;
    int64_t bytes;
  };
  std::vector<File> files;
  int64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    std::error_code gone;  // by another process
    const int64_t size = static_cast<int64_t>(entry.file_size(gone));
    const fs::file_time_type used = entry.last_write_time(gone);
    if (gone) continue;
    files.push_back({entry.path(), used, size});
    bytes += size;
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (bytes <= max_bytes_) return;
    fs::remove(file.path, error);
    bytes -= file.bytes;
  }
}

absl::StatusOr<std::string> CompileCached(NvrtcCompiler& compiler, const CubinCache& cache,
                                          const KernelProgram& program, int architecture) {
  const std::string key = CubinCache::Key(program, architecture, compiler.version());
  if (std::optional<std::string> kept = cache.Find(key); kept.has_value()) return *std::move(kept);
  TANDEM_ASSIGN_OR_RETURN(std::string cubin, compiler.Compile(program, architecture));
  cache.Keep(key, cubin);
  return cubin;
}

}  // namespace tandem::kernels
