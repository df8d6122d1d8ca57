// Names a stream of a service.
#pragma once

#include "common/base/ids.h"

namespace tandem::serving {

using base::StreamId;

}  // namespace tandem::serving
