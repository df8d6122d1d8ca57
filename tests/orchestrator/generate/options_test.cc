#include "orchestrator/options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Options Good() {
  Options options;
  options.target_addresses = {"127.0.0.1:1"};
  options.tokenizer_directory = "somewhere";
  return options;
}

TEST(OrchestratorOptions, TheDefaultsAreInRange) {
  const absl::Status status = Good().Validate();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(OrchestratorOptions, AdmissionIsCheckedAndNamed) {
  Options options = Good();
  options.max_active_requests = 0;
  options.max_waiting_requests = 16385;
  options.admission_patience = absl::ZeroDuration();
  const absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("max_active_requests is 0; it must be 1 to 65536"),
                    HasSubstr("max_waiting_requests is 16385; it must be 0 to 16384"),
                    HasSubstr("admission_patience is 0; it must be 1ms to 24h")));
}

TEST(OrchestratorOptions, ALargeNumberIsNamedAsItWasGiven) {
  Options options = Good();
  options.max_waiting_requests = 99'999'999;
  EXPECT_THAT(std::string(options.Validate().message()),
              HasSubstr("max_waiting_requests is 99999999; it must be 0 to 16384"));
}

TEST(OrchestratorOptions, TheEndsOfTheRangesAreServed) {
  Options options = Good();
  options.max_active_requests = 1;
  options.max_waiting_requests = 0;
  options.admission_patience = absl::Milliseconds(1);
  EXPECT_TRUE(options.Validate().ok());
  options.max_active_requests = 65536;
  options.max_waiting_requests = 16384;
  options.admission_patience = absl::Hours(24);
  EXPECT_TRUE(options.Validate().ok());
}

}  // namespace
}  // namespace tandem::orchestrator
