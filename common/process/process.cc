#include "common/process/process.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/output_file.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"
#include "common/concurrency/system_clock.h"

namespace tandem::process {
namespace {

// Beyond it the memory of connections counts, and some systems have 2^30.
constexpr rlim_t kMaxDescriptors = 1 << 20;

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Whether the file of an earlier start may be replaced: it has a port, or nothing, as one of
// mktemp.
bool IsPortFile(const std::string& path) {
  constexpr int64_t kMaxBytes = 16;
  const absl::StatusOr<std::string> text = base::ReadRegularFileIfThere(path, kMaxBytes);
  int port = 0;
  return text.ok() && (text->empty() || absl::SimpleAtoi(*text, &port));
}

absl::Status OfPortFile(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("--port-file: ", status.message()));
}

}  // namespace

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool WaitForStopSignal(absl::Duration timeout) {
  const sigset_t signals = StopSignals();
  if (timeout == absl::InfiniteDuration()) {
    int signal_number = 0;
    while (sigwait(&signals, &signal_number) != 0) {
    }
    return true;
  }
  const timespec wait = absl::ToTimespec(timeout);
  return sigtimedwait(&signals, nullptr, &wait) > 0;
}

ExitOnStopSignal::ExitOnStopSignal()
    : thread_([this] {
        while (!over_) {
          if (!WaitForStopSignal(absl::Milliseconds(20))) continue;
          TANDEM_LOG(kInfo) << base::LogFields("stopped").Add("during", "start");
          _exit(EXIT_SUCCESS);  // no destructors: other threads are in the middle of things
        }
      }) {}

ExitOnStopSignal::~ExitOnStopSignal() {
  over_ = true;
  thread_.join();
}

absl::string_view DrainEndName(DrainEnd end) {
  switch (end) {
    case DrainEnd::kFinished:
      return "finished";
    case DrainEnd::kGraceOver:
      return "grace_over";
    case DrainEnd::kSecondSignal:
      return "second_signal";
  }
  return "";
}

DrainEnd WaitUntilDrained(const std::function<bool()>& finished, absl::Duration grace) {
  const concurrency::SteadyClock clock;
  const concurrency::Instant end = clock.Now() + grace;
  while (!finished()) {
    const absl::Duration left = end - clock.Now();
    if (left <= absl::ZeroDuration()) return DrainEnd::kGraceOver;
    if (WaitForStopSignal(std::min(left, absl::Milliseconds(20)))) return DrainEnd::kSecondSignal;
  }
  return DrainEnd::kFinished;
}

void WatchUntilStopSignal(const std::function<absl::Duration()>& busy_for,
                          const std::function<void(bool alive)>& set_alive,
                          const std::function<bool()>& failed, absl::Duration max_busy,
                          absl::Duration look_every) {
  bool shown = true;
  while (!failed() && !WaitForStopSignal(look_every)) {
    const absl::Duration busy = busy_for();
    const bool alive = busy <= max_busy;
    if (alive == shown) continue;
    if (alive) {
      TANDEM_LOG(kInfo) << base::LogFields("alive");
    } else {
      TANDEM_LOG(kError) << base::LogFields("not_alive").Add("one_pass", busy);
    }
    set_alive(alive);
    shown = alive;
  }
}

void EndWithin(unsigned seconds) { alarm(seconds); }

absl::Status CheckPortFile(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  absl::Status status = base::CheckOutput(path, base::Existing::kReplace);
  if (status.ok() && !IsPortFile(path)) {
    status = absl::AlreadyExistsError(absl::StrCat(
        path, " already exists and is not a port file: remove it, or give another name"));
  }
  return status.ok() ? status : OfPortFile(status);
}

absl::Status WritePortFile(const std::string& path, int port) {
  if (path.empty()) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(CheckPortFile(path));
  return OfPortFile(base::WriteFile(path, absl::StrCat(port, "\n"), base::Existing::kReplace));
}

int RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised = limit;
  raised.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMaxDescriptors));
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return static_cast<int>(std::min(limit.rlim_cur, kMaxDescriptors));
}

}  // namespace tandem::process
