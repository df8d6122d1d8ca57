// Services under limits of memory and processes: either one serves, or it says what it lacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

struct Started {
  bool serves = false;
  int exit_code = 0;  // of one that does not serve
  std::string output;
};

Started Start(const std::string& kind, const ResourceLimit& limit) {
  std::vector<std::string> flags = {"--listen=127.0.0.1:0"};
  if (kind == "orchestrator") {
    flags.push_back("--target=127.0.0.1:1");
    flags.push_back(absl::StrCat("--tokenizer=", DemoTarget()));
  } else {
    flags.push_back(absl::StrCat("--model=", kind == "draft" ? DemoDraft() : DemoTarget()));
  }
  Process process("tandem-" + kind, flags, "", {limit});
  Started started;
  EXPECT_TRUE(WaitUntil([&] {
    started.output = process.Output();
    started.serves =
        process.Running() && started.output.find(" start service=") != std::string::npos;
    return started.serves || !process.Running();
  })) << kind;
  if (!started.serves) started.exit_code = process.Wait();
  return started;
}

class MemoryLimitTest : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Services, MemoryLimitTest,
                         ::testing::Values("target", "draft", "orchestrator"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(MemoryLimitTest, ItServesOrSaysWhatIsNeeded) {
  bool refused = false;
  bool served = false;
  for (const uint64_t megabytes : {100, 150, 200, 300, 400, 600, 800, 1000, 1500, 3000}) {
    const Started started = Start(GetParam(), {RLIMIT_AS, megabytes << 20});
    SCOPED_TRACE(absl::StrCat(megabytes, " MB:\n", started.output));
    served = served || started.serves;
    if (started.serves) continue;
    refused = true;
    EXPECT_EQ(started.exit_code, 1);
    EXPECT_THAT(started.output, HasSubstr("not enough memory. Needed: "));
    EXPECT_THAT(started.output, HasSubstr("; there are "));
  }
  EXPECT_TRUE(refused);
  EXPECT_TRUE(served);
}

TEST_P(MemoryLimitTest, TooFewProcessesAreSaid) {
  const Started started = Start(GetParam(), {RLIMIT_NPROC, 8});
  EXPECT_EQ(started.exit_code, 1) << started.output;
  EXPECT_THAT(started.output, HasSubstr("threads"));
}

}  // namespace
}  // namespace tandem::testing
