#include "common/hub/pull_process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tandem::hub {
namespace {

constexpr size_t kMaxLine = 16384;  // longer ones are cut

// In the child, after fork: nothing here allocates or locks.
[[noreturn]] void Become(const char* program, char* const* argv, int error_pipe) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(error_pipe, STDERR_FILENO);
  execv(program, argv);
  _exit(127);
}

// Reads lines until the other side closes. The rest of the last error line is the result.
std::string ForwardLines(int pipe, const std::function<void(absl::string_view)>& say) {
  std::string line, error;
  const auto finish = [&] {
    absl::string_view text = line;
    if (absl::ConsumePrefix(&text, "error: ")) {
      error = std::string(text);
    } else if (!text.empty()) {
      say(text);
    }
    line.clear();
  };
  char buffer[4096];
  while (true) {
    const ssize_t count = read(pipe, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    for (const char c : absl::string_view(buffer, static_cast<size_t>(count))) {
      if (c == '\n') {
        finish();
      } else if (line.size() < kMaxLine) {
        line.push_back(c);
      }
    }
  }
  finish();
  return error;
}

std::string EndText(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("it was ended by signal ", WTERMSIG(status));
  return absl::StrCat("it ended with exit code ", WEXITSTATUS(status));
}

}  // namespace

std::string TandemBeside() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  const std::string path = (self.parent_path() / "tandem").string();
  return access(path.c_str(), X_OK) == 0 ? path : "";
}

absl::Status RunPull(const std::string& program, const std::vector<std::string>& arguments,
                     const std::function<void(absl::string_view line)>& say) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot start ", program, ": ", strerror(errno)));
  }
  const pid_t child = fork();
  if (child == 0) Become(program.c_str(), argv.data(), pipes[1]);
  close(pipes[1]);
  if (child < 0) {
    close(pipes[0]);
    return absl::UnavailableError(absl::StrCat("cannot start ", program, ": ", strerror(errno)));
  }
  const std::string error = ForwardLines(pipes[0], say);
  close(pipes[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::UnavailableError(error.empty() ? absl::StrCat(program, ": ", EndText(status))
                                              : error);
}

}  // namespace tandem::hub
