#include "common/process/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tandem::process {
namespace {

int first_error = 0;  // an errno; 0: every text was written

}  // namespace

void Print(absl::string_view text) {
  if (first_error != 0) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return;
  }
  first_error = errno == 0 ? EIO : errno;
}

absl::Status PrintStatus() {
  if (first_error == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("standard output cannot be written: ", std::strerror(first_error)));
}

}  // namespace tandem::process
