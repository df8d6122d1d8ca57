// Whether this is a build with AddressSanitizer.
#ifndef TANDEM_TESTS_SUPPORT_ADDRESS_SANITIZER_H_
#define TANDEM_TESTS_SUPPORT_ADDRESS_SANITIZER_H_

namespace tandem::testing {

// A test that runs as users run it as well (label fast) tries less here: the numbers are the same,
// and each takes ten times as long.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_ADDRESS_SANITIZER_H_
