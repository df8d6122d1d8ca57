// Under the sanitizers, which have an operator new of their own: they tell of each allocation.
#include <sanitizer/allocator_interface.h>

#include <atomic>

#include "common/base/check.h"
#include "tests/support/allocations.h"

namespace tandem::testing {
namespace {

std::atomic<int64_t> allocations{0};

const bool installed = [] {
  const int hooks = __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, size_t) { ++allocations; }, [](const volatile void*) {});
  TANDEM_CHECK(hooks > 0);
  return true;
}();

}  // namespace

int64_t AllocatedBytes() { return static_cast<int64_t>(__sanitizer_get_current_allocated_bytes()); }

int64_t Allocations() {
  TANDEM_CHECK(installed);
  return allocations;
}

}  // namespace tandem::testing
