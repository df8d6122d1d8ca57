// The descriptors that this process may have.
#pragma once

namespace tandem::process {

// Raises the soft limit to the hard one, as far as a server has use for it, and returns what it is
// now. Many systems give a process 1,024 and let it ask for more. The limit stays as it is where
// the system refuses.
int RaiseDescriptorLimit();

}  // namespace tandem::process
