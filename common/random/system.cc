#include "common/random/system.h"

#include <sys/random.h>

#include "common/base/check.h"

namespace tandem::random {

uint64_t FromSystem() {
  uint64_t drawn = 0;
  TANDEM_CHECK(getrandom(&drawn, sizeof drawn, 0) == sizeof drawn);
  return drawn;
}

}  // namespace tandem::random
