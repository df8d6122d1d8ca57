#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace tandem::base::internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  message_ << file << ":" << line << ": CHECK failed: " << condition << " ";
}

CheckFailure::~CheckFailure() {
  message_ << "\n";
  std::string line = message_.str();
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tandem::base::internal
