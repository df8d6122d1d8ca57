// The locks of the libraries that a program links.
#pragma once

namespace tandem::process {

// Once, at the beginning of main: before any other thread, and with no lock held.
//
// Debian builds Abseil without NDEBUG. So absl::Mutex, which gRPC takes some thirty times per
// round, looks for cycles in the order of locks: each Lock and Unlock takes one spin lock of the
// whole process to walk a graph. That is a tenth of the orchestrator's instructions
// (bench/README.md), and it would abort the process where it finds a cycle. This turns it off.
// Tests keep it, but for those that serve whole requests: they run as users run it.
void StopDeadlockDetection();

}  // namespace tandem::process
