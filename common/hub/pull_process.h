// Runs `tandem pull` for a service. The services link nothing that downloads: the program `tandem`
// does, where it lies beside them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem::hub {

// The program `tandem` in the folder of this process's own program; empty: there is none.
std::string TandemBeside();

// Runs `program` with `arguments` and waits for it. Each line that it writes to standard error goes
// to `say` as it comes, but for the one that begins with "error: ": that becomes the message of the
// status. What it writes to standard output is dropped. It ends with this process, and takes stop
// signals, which this process may have blocked. UNAVAILABLE: it could not be started, or failed.
// From the main thread: the child ends with the thread that started it.
absl::Status RunPull(const std::string& program, const std::vector<std::string>& arguments,
                     const std::function<void(absl::string_view line)>& say);

}  // namespace tandem::hub
