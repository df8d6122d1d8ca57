// What the main function of every service does beside its service.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tandem::process {

// SIGTERM and SIGINT no longer end the process. Before any thread begins, which would take them.
void BlockStopSignals();
// Returns when one of them came, or, with false, after `timeout`.
bool WaitForStopSignal(absl::Duration timeout = absl::InfiniteDuration());

// Returns when one of them came, or `failed` holds. Until then it looks every `look_every`, and
// tells `set_alive` of each change: false while `busy_for` (how long the device thread has been at
// one pass) is over `max_busy`. It begins as alive.
void WatchUntilStopSignal(const std::function<absl::Duration()>& busy_for,
                          const std::function<void(bool alive)>& set_alive,
                          const std::function<bool()>& failed,
                          absl::Duration max_busy = absl::Minutes(1),
                          absl::Duration look_every = absl::Milliseconds(100));

// The process has at most so many seconds left to end by itself; SIGALRM ends it then. For an end
// that may have to wait for a device that answers no more.
void EndWithin(unsigned seconds);

// While it lives a stop signal ends the process at once, with exit code 0: what has not begun to
// serve has nothing to finish. For models take long to load. After BlockStopSignals; a signal that
// comes later is WaitForStopSignal's.
class ExitOnStopSignal {
 public:
  ExitOnStopSignal();
  ~ExitOnStopSignal();
  ExitOnStopSignal(const ExitOnStopSignal&) = delete;
  ExitOnStopSignal& operator=(const ExitOnStopSignal&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// Raises the soft limit to the hard one, as far as a server has use for it, and returns what it is
// now. Many systems give a process 1,024 and let it ask for more. The limit stays as it is where
// the system refuses.
int RaiseDescriptorLimit();

// How the waiting of a drain ended.
enum class DrainEnd { kFinished, kGraceOver, kSecondSignal };
// For the log: "finished", "grace_over", "second_signal".
absl::string_view DrainEndName(DrainEnd end);
// Waits until `finished`, which is asked again and again, for `grace` at most. Another stop signal
// ends it.
DrainEnd WaitUntilDrained(const std::function<bool()>& finished, absl::Duration grace);

// Whether WritePortFile may write there; ask before anything that takes long. The port file of an
// earlier start, or an empty file, is replaced, so that a service can be started again. Any other
// file is kept: ALREADY_EXISTS. Errors otherwise as base/output_file.h has them, and with the
// flag's name, --port-file. OK for an empty path.
absl::Status CheckPortFile(const std::string& path);

// Writes the port and a line break, so that a reader never sees half of it. Nothing for an empty
// path. Errors as CheckPortFile's.
absl::Status WritePortFile(const std::string& path, int port);

}  // namespace tandem::process
