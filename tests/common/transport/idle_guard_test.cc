// The first message after a second of silence, with and without the idle guard, in this process and
// between two. Whether a process ever started a guard decides, so each measurement is a child
// process: this binary again, with --probe or --serve.
#include "common/transport/idle_guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/transport/echo.h"

namespace tandem::transport {
namespace {

constexpr int kTries = 8;
// Far above a round trip. gRPC's sleep ends 1.1 s after the last event.
constexpr double kStalledMs = 40;

// A child process of this binary whose standard input and output are pipes to us.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    int in[2], out[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    std::vector<char*> argv;
    arguments.insert(arguments.begin(), "idle_guard_test");
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execv("/proc/self/exe", argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = fdopen(out[0], "r");
  }
  ~Child() { Wait(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::optional<double> ReadNumber() {
    double number = 0;
    if (std::fscanf(from_, "%lf", &number) != 1) return std::nullopt;
    return number;
  }

  // Ends its input, and waits. The exit status, or -1 for a signal.
  int Wait() {
    if (pid_ < 0) return status_;
    close(to_);
    std::fclose(from_);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return status_;
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  FILE* from_ = nullptr;
  int status_ = -1;
};

// Child: times the first message after 1.02 to 1.05 s of idling, a few times: early in the 100 ms
// in which gRPC sleeps. Port 0: with a server here.
int Probe(bool guarded, int port) {
  std::shared_ptr<IdleGuard> guard = guarded ? IdleGuard::Get() : nullptr;
  std::optional<EchoServer> server;
  if (port == 0) port = server.emplace().port();
  PingClient client(port);
  const Bytes message = ToBytes("ping");
  for (int i = 0; i < 20; ++i) client.RoundTrip(message);
  for (int i = 0; i < kTries; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1020 + 30 * i / (kTries - 1)));
    std::printf("%f\n", client.TimedRoundTrip(message));
  }
  std::fflush(stdout);
  return 0;
}

// Child: serves until its input ends.
int Serve(bool guarded) {
  std::shared_ptr<IdleGuard> guard = guarded ? IdleGuard::Get() : nullptr;
  const EchoServer server;
  std::printf("%d\n", server.port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

bool GuardThreadRuns() {
  DIR* tasks = opendir("/proc/self/task");
  bool found = false;
  while (const dirent* entry = readdir(tasks)) {
    std::ifstream comm(std::string("/proc/self/task/") + entry->d_name + "/comm");
    std::string name;
    std::getline(comm, name);
    found = found || name == "idle-guard";
  }
  closedir(tasks);
  return found;
}

// Child: the guard runs until exit, and no longer than main's statics. A thread that was joined can
// stay in /proc for a moment: the kernel wakes the joiner before it takes the thread out.
struct AtExit {
  ~AtExit() {
    for (int tries = 0; armed && GuardThreadRuns(); ++tries) {
      if (tries == 1000) _exit(3);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  bool armed = false;
};
AtExit at_exit;

int Exit() {
  IdleGuard::Get();
  if (!GuardThreadRuns()) return 4;
  at_exit.armed = true;
  std::exit(0);
}

// The server's guard matters only where `server_guarded` is set: then the server is another
// process.
std::vector<double> Measure(bool guarded, std::optional<bool> server_guarded = std::nullopt) {
  std::optional<Child> server;
  std::string port = "0";
  if (server_guarded.has_value()) {
    server.emplace(std::vector<std::string>{"--serve", *server_guarded ? "1" : "0"});
    port = std::to_string(static_cast<int>(server->ReadNumber().value_or(1)));
  }
  Child probe({"--probe", guarded ? "1" : "0", port});
  std::vector<double> tries;
  while (auto ms = probe.ReadNumber()) tries.push_back(*ms);
  EXPECT_EQ(probe.Wait(), 0);
  if (server.has_value()) {
    EXPECT_EQ(server->Wait(), 0);
  }
  EXPECT_EQ(tries.size(), static_cast<size_t>(kTries));
  EXPECT_THAT(tries, testing::Each(testing::Gt(0)));  // every message came back
  tries.resize(kTries, 1e9);
  std::sort(tries.begin(), tries.end());
  std::printf("client %s guard, server %s: first message after idling %.2f ms median, %.2f max\n",
              guarded ? "with" : "without",
              !server_guarded.has_value() ? "in the same process"
              : *server_guarded           ? "elsewhere, with guard"
                                          : "elsewhere, without guard",
              tries[kTries / 2], tries.back());
  return tries;
}

// In at least a quarter of the tries. A busy machine delays one message now and then; gRPC's sleep
// delays most.
bool Stalls(const std::vector<double>& tries) { return tries[kTries * 3 / 4 - 1] > kStalledMs; }

void ExpectQuick(std::optional<bool> server_guarded) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!Stalls(Measure(true, server_guarded))) return;
  }
  FAIL() << "twice, first messages after idling took longer than " << kStalledMs << " ms";
}

TEST(IdleGuardTest, FirstMessageAfterIdlingIsQuick) { ExpectQuick(std::nullopt); }

TEST(IdleGuardTest, BetweenTwoProcessesThatBothHoldAGuard) { ExpectQuick(true); }

// The controls show what the guard is for. That a machine or a gRPC shows nothing is not a failure.
TEST(IdleGuardTest, WithoutAGuardTheFirstMessageStalls) {
  if (!Stalls(Measure(false))) GTEST_SKIP() << "the stall does not show on this machine";
}

TEST(IdleGuardTest, EachProcessNeedsItsOwn) {
  if (!Stalls(Measure(true, false))) GTEST_SKIP() << "the stall does not show on this machine";
}

TEST(IdleGuardTest, StopsItsThreadBeforeStaticsGo) { EXPECT_EQ(Child({"--exit"}).Wait(), 0); }

}  // namespace

int Run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "--probe" && argc == 4) return Probe(argv[2][0] == '1', std::atoi(argv[3]));
  if (mode == "--serve" && argc == 3) return Serve(argv[2][0] == '1');
  if (mode == "--exit") return Exit();
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace tandem::transport

int main(int argc, char** argv) { return tandem::transport::Run(argc, argv); }
