// CHECKs for our own broken invariants; they stay on in every build. What input, peers or the
// machine can cause is an absl::Status instead.
//
//   TANDEM_CHECK(keep <= length()) << "keep " << keep << " of " << length();
//   TANDEM_CHECK_OK(queue.Push(job));
//
// A failure prints file:line, the condition and the message to stderr and aborts.
#pragma once

#include <ostream>
#include <sstream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem::base::internal {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();

  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// Gives both branches of a CHECK's ?: the type void; binds weaker than <<.
struct Voidify {
  void operator&(std::ostream&) const {}
};

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace tandem::base::internal

#define TANDEM_CHECK(condition)                     \
  __builtin_expect(static_cast<bool>(condition), 1) \
      ? (void)0                                     \
      : ::tandem::base::internal::Voidify() &       \
            ::tandem::base::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

// `expression` gives an absl::Status or an absl::StatusOr; evaluated once.
#define TANDEM_CHECK_OK(expression)                                                           \
  for (::absl::Status tandem_check_status = ::tandem::base::internal::StatusOf((expression)); \
       !tandem_check_status.ok();)                                                            \
  ::tandem::base::internal::CheckFailure(__FILE__, __LINE__, #expression " is OK").stream()   \
      << tandem_check_status << " "
