// What processes end with.
#pragma once

namespace tandem::process {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;      // what was asked for failed, or nobody answered
inline constexpr int kExitUsage = 2;        // wrong flags of the command; nothing was tried
inline constexpr int kExitCancelled = 130;  // by a signal

}  // namespace tandem::process
