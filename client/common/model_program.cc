#include "client/common/model_program.h"

#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/common/command_line.h"
#include "common/process/exit_codes.h"

namespace tandem::client {

int RunModelProgram(const std::string& command, absl::Span<const std::string> args) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    PrintError(
        absl::InternalError(absl::StrCat("cannot tell where `tandem` lies: ", error.message())));
    return process::kExitFailure;
  }
  const std::string binary = (self.parent_path() / "tandem-model").string();
  std::vector<std::string> words = {binary, command};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(binary.c_str(), argv.data());
  PrintError(
      absl::NotFoundError(absl::StrCat("cannot start ", binary, ": ", strerror(errno),
                                       "\n  hint: build the target tandem-model; it lies beside "
                                       "tandem")));
  return process::kExitFailure;
}

}  // namespace tandem::client
