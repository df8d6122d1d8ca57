// Names a stream of a service.
#pragma once

#include <cstdint>

namespace tandem::serving {

using StreamId = uint64_t;  // of this process; 0 is none

}  // namespace tandem::serving
