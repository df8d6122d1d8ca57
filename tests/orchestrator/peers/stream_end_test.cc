#include "orchestrator/peers/stream_end.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

TEST(StreamEndReason, ANakedUnimplementedNamesTheService) {
  EXPECT_THAT(StreamEndReason(absl::UnimplementedError(""), "tandem.internal.v1.Draft"),
              ::testing::HasSubstr("does not serve tandem.internal.v1.Draft"));
}

TEST(StreamEndReason, AReasonOfThePeersStays) {
  EXPECT_EQ(StreamEndReason(absl::UnimplementedError("trees"), "tandem.internal.v1.Draft"),
            "UNIMPLEMENTED: trees");
  EXPECT_EQ(StreamEndReason(absl::OkStatus(), "tandem.internal.v1.Draft"), "it closed the stream");
}

TEST(StreamEndReason, APortOfAnotherProtocolIsNamed) {
  EXPECT_THAT(StreamEndReason(absl::UnavailableError("Trying to connect an http1.x server"),
                              "tandem.internal.v1.Target"),
              ::testing::HasSubstr("speaks HTTP/1.1: take the gRPC port"));
}

}  // namespace
}  // namespace tandem::orchestrator
