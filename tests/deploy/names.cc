#include "tests/deploy/names.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/integration/models.h"
#include "tests/support/paths.h"

namespace tandem::testing {
namespace {

const std::string& Path() {
  static const auto& folder = *new ScratchFolder;
  static const auto& path = *new std::string(folder.path() + "/names");
  return path;
}

}  // namespace

Names::Names() {
  static const bool set = [] {
    setenv("TANDEM_TEST_NAMES", Path().c_str(), 1);
    setenv("LD_PRELOAD", BuildPath("tests/deploy/libtandem_test_name_lookup.so").c_str(),
           1);                                 // of children; this process is linked with it
    setenv("GRPC_DNS_RESOLVER", "native", 1);  // the other one asks name servers itself
    return true;
  }();
  TANDEM_CHECK(set);
  Set("none", {});
}

void Names::Set(const std::string& name, std::vector<std::string> addresses) {
  names_[name] = std::move(addresses);
  std::string text;
  for (const auto& [of, all] : names_) {
    for (const std::string& address : all) absl::StrAppend(&text, address, " ", of, "\n");
  }
  WriteFile(Path() + ".new", text);
  TANDEM_CHECK(std::rename((Path() + ".new").c_str(), Path().c_str()) == 0);
}

}  // namespace tandem::testing
