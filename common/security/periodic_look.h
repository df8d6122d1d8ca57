// One thread per process that looks at things now and then: at files that may have been replaced,
// at times that may have come.
#pragma once

#include <functional>

namespace tandem::security {

// Calls `look` every half second from now on, on that thread, never two looks at once. `look` must
// be short, and may be called until the process ends. The thread ends at exit(). Thread-safe, also
// from within a look.
void LookNowAndThen(std::function<void()> look);

}  // namespace tandem::security
