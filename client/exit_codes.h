// What the processes of this folder end with.
#pragma once

namespace tandem::client {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;      // the request failed, or nobody answered
inline constexpr int kExitUsage = 2;        // wrong flags; nothing was tried
inline constexpr int kExitCancelled = 130;  // by a signal

}  // namespace tandem::client
