#include "common/base/version.h"

namespace tandem::base {

absl::string_view Version() { return TANDEM_VERSION; }

}  // namespace tandem::base
