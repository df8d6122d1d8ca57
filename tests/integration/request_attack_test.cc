// Requests that become large in memory: without a token none is read, and with one they are refused
// before they are parsed. The memory of each service stays below what its flags say.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tandem/v1/generation.pb.h"
#include "tests/integration/attack.h"

namespace tandem::testing {
namespace {

constexpr int kCalls = 384;
constexpr int kEntries = 350'000;
constexpr char kToken[] = "right-4f1c9ab2d07e6653";
// At rest a service takes less than this; the demo pair is small.
constexpr int64_t kAtRest = 300 << 20;

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

// A GenerateRequest of 700 KB with 350,000 empty entries, 2 bytes each.
std::string ManyBiases() {
  std::string entries;
  for (int i = 0; i < kEntries; ++i) entries += std::string("\x2a\x00", 2);
  v1::GenerateRequest request;
  request.set_text("x");
  request.set_max_tokens(1);
  std::string bytes = request.SerializeAsString();
  bytes += '\x1a';  // sampling, and its length
  for (size_t size = entries.size(); size > 0; size >>= 7) {
    bytes += static_cast<char>((size & 0x7f) | (size >= 0x80 ? 0x80 : 0));
  }
  return bytes + entries;
}

class RequestAttackTest : public AttackTest {
 protected:
  // Calls at once over a few connections, each with these bytes. How often each status came.
  static std::map<grpc::StatusCode, int> CallAtOnce(const std::string& address,
                                                    const std::string& method,
                                                    const std::string& bytes, int count = kCalls) {
    struct Call {
      grpc::ClientContext context;
      grpc::ByteBuffer reply;
      std::promise<grpc::Status> done;
    };
    const grpc::ByteBuffer request = Bytes(bytes);
    std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
    for (int i = 0; i < 8; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs.push_back(std::make_unique<grpc::GenericStub>(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments)));
    }
    std::vector<std::unique_ptr<Call>> calls;
    for (int i = 0; i < count; ++i) {
      calls.push_back(std::make_unique<Call>());
      Call& call = *calls.back();
      // Long requests have turns: on a busy machine the last ones wait for more than a minute.
      call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(150));
      stubs[i % stubs.size()]->UnaryCall(
          &call.context, method, {}, &request, &call.reply,
          [&call](const grpc::Status& status) { call.done.set_value(status); });
    }
    std::map<grpc::StatusCode, int> statuses;
    for (const auto& call : calls) {
      const grpc::Status status = call->done.get_future().get();
      if (++statuses[status.error_code()] == 1) {
        std::printf("%d %s\n", status.error_code(), status.error_message().c_str());
      }
    }
    return statuses;
  }

  ScratchFolder folder_;
};

TEST_F(RequestAttackTest, WithoutATokenNothingIsRead) {
  const std::string tokens = folder_.path() + "/tokens";
  WriteFile(tokens, kToken);
  Start({"--token-file=" + tokens});
  ASSERT_TRUE(ServesSoon({"--token-file=" + tokens})) << orchestrator_->Output();
  const std::string bytes = ManyBiases();
  const auto refused =
      CallAtOnce(orchestrator_->address(), "/tandem.v1.Generation/Generate", bytes);
  EXPECT_EQ(refused.at(grpc::StatusCode::UNAUTHENTICATED), kCalls);
  EXPECT_LT(PeakBytes("orchestrator, 384 calls without a token", *orchestrator_), kAtRest);
  EXPECT_TRUE(Serves({"--token-file=" + tokens}));
}

TEST_F(RequestAttackTest, WhatWouldBecomeLargeIsNotParsed) {
  Start({});
  ASSERT_TRUE(ServesSoon()) << orchestrator_->Output();
  const std::string bytes = ManyBiases();
  // Each would be 17 MB: parsed at once, they are twice what the bound allows.
  constexpr int kLarge = 96;
  auto refused =
      CallAtOnce(orchestrator_->address(), "/tandem.v1.Generation/Generate", bytes, kLarge);
  // On a busy machine a call finds no room among the bytes that wait to be checked, or waits a
  // minute for its turn. That refuses it, too, without parsing it.
  EXPECT_GT(refused[grpc::StatusCode::INVALID_ARGUMENT], 0);
  EXPECT_EQ(
      refused[grpc::StatusCode::INVALID_ARGUMENT] + refused[grpc::StatusCode::RESOURCE_EXHAUSTED],
      kLarge);
  // The bytes themselves may wait, as far as --max-network-mib lets them: 512.
  EXPECT_LT(PeakBytes("orchestrator, 96 calls of 700 KB", *orchestrator_),
            kAtRest + (int64_t{512} << 20));
  EXPECT_TRUE(Serves());
}

// A Batch of empty Steps, two bytes each, and what a draft gets likewise.
TEST_F(RequestAttackTest, TargetAndDraftRefuseThemToo) {
  Start({});
  std::string steps;
  for (int i = 0; i < kEntries; ++i) steps += std::string("\x0a\x00", 2);
  std::string bytes = "\x12";
  for (size_t size = steps.size(); size > 0; size >>= 7) {
    bytes += static_cast<char>((size & 0x7f) | (size >= 0x80 ? 0x80 : 0));
  }
  bytes += steps;
  const auto at_target = CallAtOnce(target_->address(), "/tandem.internal.v1.Target/Verify", bytes);
  EXPECT_EQ(at_target.at(grpc::StatusCode::INVALID_ARGUMENT), kCalls);
  EXPECT_LT(PeakBytes("target, 384 calls of 700 KB", *target_), kAtRest + (int64_t{512} << 20));
  const auto at_draft =
      CallAtOnce(draft_->address(), "/tandem.internal.v1.Draft/Propose", "\x0a\x7fxyz");
  EXPECT_EQ(at_draft.at(grpc::StatusCode::INVALID_ARGUMENT), kCalls);
  EXPECT_LT(PeakBytes("draft, 384 calls of nonsense", *draft_), kAtRest);
  EXPECT_TRUE(ServesSoon()) << orchestrator_->Output();
}

}  // namespace
}  // namespace tandem::testing
