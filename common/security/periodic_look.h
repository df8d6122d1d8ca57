// One thread a process, for what is looked at now and then: files that may have been replaced, times that
// may have come.
#pragma once

#include <functional>

namespace tandem::security {

// `look` is called every half second from now on, on a thread of its own kind, never two looks at once; it
// must be short, and good until the process ends. The thread ends at exit(). Thread-safe, also from a look.
void LookNowAndThen(std::function<void()> look);

}  // namespace tandem::security
