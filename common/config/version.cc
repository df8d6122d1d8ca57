#include "common/config/version.h"

namespace tandem::config {

absl::string_view Version() { return TANDEM_VERSION; }

}  // namespace tandem::config
