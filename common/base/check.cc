#include "common/base/check.h"

#include <cstdlib>
#include <string>

#include "common/base/log.h"

namespace tandem::base::internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  message_ << file << ":" << line << ": CHECK failed: " << condition << " ";
}

CheckFailure::~CheckFailure() {
  const std::string message = message_.str();
  WriteLogLine({LogLevel::kError, __FILE__, __LINE__, message});
  std::abort();
}

}  // namespace tandem::base::internal
