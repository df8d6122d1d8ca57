// The real binaries as processes of their own, over TCP on loopback: what can be killed, stopped
// and started again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/listen.h"
#include "tests/integration/models.h"

namespace grpc {
class Channel;
}

namespace tandem::testing {

// Of a process: RLIMIT_NOFILE, RLIMIT_AS; both the soft and the hard one.
struct ResourceLimit {
  int resource = 0;
  uint64_t value = 0;
};

// One process of this preset's bin folder. Thread safety: one thread.
//
// The port that it listened on stays its own until the object goes: no process that asks the
// system for any free port gets it. Otherwise a service of a test that runs at the same time could
// be given it, and a client would take that service for this one, come back.
class Process {
 public:
  // Starts it at once, both outputs into one file. `port_file`: the flag's name ("port_file",
  // "port-file"); empty: the process listens nowhere.
  Process(const std::string& binary, std::vector<std::string> flags, const std::string& port_file,
          const std::vector<ResourceLimit>& limits = {});
  ~Process();  // kills

  // Waits until it listens; CHECKs that it does.
  int WaitForPort();
  bool Running();  // false: it has ended, by itself or not
  void Signal(int signal_number);
  void Kill();  // SIGKILL, and waits
  // Waits for its own end and returns its exit code (128 + signal if one ended it).
  int Wait();
  std::string Output() const;
  // The most memory that it had resident so far.
  int64_t PeakBytes() const;
  // Processor time that the threads of this worker pool have had so far, as they count it.
  absl::Duration ThreadCpu(const std::string& pool) const;

 private:
  void Ended(int status);  // as waitpid gives it

  ScratchFolder folder_;
  std::string binary_;
  pid_t pid_ = -1;  // -1: over
  int exit_code_ = -1;
  int port_ = 0;                         // 0: none, or not known yet
  std::optional<base::Socket> reserve_;  // of the port, after the end
};

// What a short-lived command wrote, and how it ended.
struct CommandResult {
  int exit_code = 0;
  std::string output;
};
CommandResult RunCommand(const std::string& binary, std::vector<std::string> flags);

// The three services on the demo pair, each a process.
class ProcessCluster {
 public:
  // The addresses that the orchestrator connects to; empty: those of the processes.
  struct Options {
    std::string target_address;
    std::string draft_address;
    std::vector<std::string> orchestrator_flags;
  };

  // Starts target and draft; they are there when it returns.
  explicit ProcessCluster(std::vector<std::string> target_flags = {});
  // Starts the orchestrator and waits until it is ready.
  void StartOrchestrator(const Options& options);
  void StartOrchestrator() { StartOrchestrator({}); }

  Process& draft() { return *draft_; }
  Process& target() { return *target_; }
  Process& orchestrator() { return *orchestrator_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  std::string target_address() const;
  std::string draft_address() const;

  // Kills what still runs and starts it again on the same port.
  void RestartDraft();
  void RestartTarget();

 private:
  const std::vector<std::string> target_flags_;
  int target_port_ = 0;
  int draft_port_ = 0;
  std::unique_ptr<Process> target_;
  std::unique_ptr<Process> draft_;
  std::unique_ptr<Process> orchestrator_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Whether the orchestrator at this channel serves requests: it is asked for one token.
bool IsServing(const std::shared_ptr<grpc::Channel>& channel);

}  // namespace tandem::testing
