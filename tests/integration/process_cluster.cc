#include "tests/integration/process_cluster.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/transport/channel.h"
#include "tests/integration/requests.h"
#include "tests/support/paths.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

constexpr uid_t kNobody = 65534;

// Signals that the test's own threads block must not stay blocked in the child.
void BecomeProcess(const std::string& binary, const std::vector<std::string>& flags,
                   const std::string& output, const std::vector<ResourceLimit>& limits) {
  std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
  for (const std::string& flag : flags) argv.push_back(const_cast<char*>(flag.c_str()));
  argv.push_back(nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that aborts leaves nothing behind
  const int out = open(output.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  const int in = open("/dev/null", O_RDONLY);
  dup2(in, 0);
  dup2(out, 1);
  dup2(out, 2);
  for (const ResourceLimit& limit : limits) {
    const rlimit both{limit.value, limit.value};
    setrlimit(static_cast<__rlimit_resource_t>(limit.resource), &both);
    // For root there is no limit of processes, and for all others it counts those of the user.
    if (limit.resource == RLIMIT_NPROC && geteuid() == 0 && setuid(kNobody) != 0) _exit(127);
  }
  execv(binary.c_str(), argv.data());
  _exit(127);
}

// Binds a socket to this port of loopback, which does not listen. The system then gives the port to
// nobody who asks for any; a service that names it can listen there, and a client is refused until
// one does. If somebody was faster there is nothing left to reserve.
base::Socket ReservePort(int port) {
  base::Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socket.SetOption(SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  (void)bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  return socket;
}

std::vector<std::string> ListenFlags(int port) {
  return {absl::StrCat("--listen=127.0.0.1:", port)};
}

std::unique_ptr<Process> StartTarget(int port, const std::vector<std::string>& more) {
  std::vector<std::string> flags = ListenFlags(port);
  flags.push_back(absl::StrCat("--model=", DemoTarget()));
  flags.insert(flags.end(), more.begin(), more.end());
  return std::make_unique<Process>("tandem-target", std::move(flags), "port_file");
}

std::unique_ptr<Process> StartDraft(int port) {
  std::vector<std::string> flags = ListenFlags(port);
  flags.push_back(absl::StrCat("--model=", DemoDraft()));
  return std::make_unique<Process>("tandem-draft", std::move(flags), "port_file");
}

}  // namespace

Process::Process(const std::string& binary, std::vector<std::string> flags,
                 const std::string& port_file, const std::vector<ResourceLimit>& limits)
    : binary_(BinaryPath(binary)) {
  TANDEM_CHECK(Exists(binary_)) << binary_ << " is not built";
  if (!port_file.empty()) {
    flags.push_back(absl::StrCat("--", port_file, "=", folder_.path(), "/port"));
  }
  const std::string output = folder_.path() + "/output";
  WriteFile(output, "");
  pid_ = fork();
  TANDEM_CHECK(pid_ >= 0);
  if (pid_ == 0) BecomeProcess(binary_, flags, output, limits);
}

Process::~Process() { Kill(); }

int Process::WaitForPort() {
  const std::string file = folder_.path() + "/port";
  const bool listens = WaitUntil([&] { return !Running() || Exists(file); });
  TANDEM_CHECK(listens && Exists(file)) << binary_ << " does not listen:\n" << Output();
  TANDEM_CHECK(absl::SimpleAtoi(ReadFile(file), &port_) && port_ > 0) << ReadFile(file);
  return port_;
}

bool Process::Running() {
  int status = 0;
  if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) Ended(status);
  return pid_ > 0;
}

void Process::Signal(int signal_number) {
  TANDEM_CHECK(pid_ > 0) << binary_ << " is over";
  TANDEM_CHECK(kill(pid_, signal_number) == 0);
}

void Process::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  Wait();
}

int Process::Wait() {
  if (pid_ > 0) {
    int status = 0;
    TANDEM_CHECK(waitpid(pid_, &status, 0) == pid_);
    Ended(status);
  }
  return exit_code_;
}

void Process::Ended(int status) {
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  pid_ = -1;
  if (port_ > 0) reserve_.emplace(ReservePort(port_));
}

std::string Process::Output() const { return ReadFile(folder_.path() + "/output"); }

int64_t Process::PeakBytes() const {
  const std::string status = ReadFile(absl::StrCat("/proc/", pid_, "/status"));
  const size_t at = status.find("VmHWM:");
  TANDEM_CHECK(at != status.npos) << binary_ << " is over:\n" << Output();
  return std::strtoll(status.c_str() + at + 6, nullptr, 10) * 1024;
}

absl::Duration Process::ThreadCpu(const std::string& pool) const {
  int64_t ticks = 0;
  const std::string tasks = absl::StrCat("/proc/", pid_, "/task");
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    if (!absl::StartsWith(ReadFile(task.path() / "comm"), pool + "-")) continue;
    // What follows the name, which is in parentheses: its 12th and 13th fields.
    const std::string stat = ReadFile(task.path() / "stat");
    const std::vector<std::string> fields = absl::StrSplit(stat.substr(stat.rfind(')') + 2), ' ');
    int64_t user = 0, system = 0;
    TANDEM_CHECK(absl::SimpleAtoi(fields.at(11), &user) &&
                 absl::SimpleAtoi(fields.at(12), &system));
    ticks += user + system;
  }
  return absl::Seconds(ticks) / sysconf(_SC_CLK_TCK);
}

CommandResult RunCommand(const std::string& binary, std::vector<std::string> flags) {
  Process process(binary, std::move(flags), "");
  const int exit_code = process.Wait();
  return {exit_code, process.Output()};
}

ProcessCluster::ProcessCluster(std::vector<std::string> target_flags)
    : target_flags_(std::move(target_flags)),
      target_(StartTarget(0, target_flags_)),
      draft_(StartDraft(0)) {
  target_port_ = target_->WaitForPort();
  draft_port_ = draft_->WaitForPort();
}

std::string ProcessCluster::target_address() const {
  return absl::StrCat("127.0.0.1:", target_port_);
}

std::string ProcessCluster::draft_address() const {
  return absl::StrCat("127.0.0.1:", draft_port_);
}

void ProcessCluster::StartOrchestrator(const Options& options) {
  std::vector<std::string> flags = ListenFlags(0);
  flags.push_back(absl::StrCat("--tokenizer=", DemoTarget()));
  flags.push_back(absl::StrCat(
      "--target=", options.target_address.empty() ? target_address() : options.target_address));
  flags.push_back(absl::StrCat(
      "--draft=", options.draft_address.empty() ? draft_address() : options.draft_address));
  flags.insert(flags.end(), options.orchestrator_flags.begin(), options.orchestrator_flags.end());
  orchestrator_ = std::make_unique<Process>("tandem-orchestrator", std::move(flags), "port_file");
  channel_ = transport::MakeChannel(absl::StrCat("127.0.0.1:", orchestrator_->WaitForPort()));
  const bool ready = WaitUntil([&] { return IsServing(channel_); });
  TANDEM_CHECK(ready) << orchestrator_->Output();
}

void ProcessCluster::RestartDraft() {
  draft_ = nullptr;
  draft_ = StartDraft(draft_port_);
  draft_->WaitForPort();
}

void ProcessCluster::RestartTarget() {
  target_ = nullptr;
  target_ = StartTarget(target_port_, target_flags_);
  target_->WaitForPort();
}

bool IsServing(const std::shared_ptr<grpc::Channel>& channel) {
  return Send(channel, GreedyRequest({0}, 1, 0)).status.ok();
}

}  // namespace tandem::testing
