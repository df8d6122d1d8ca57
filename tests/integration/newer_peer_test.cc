// Peers of a later version: unknown requests are refused by their number, in the narrowest
// place that has an answer; other unknown fields are skipped.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/speculation/prefix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/integration/endings.h"
#include "tests/integration/raw_stream.h"
#include "tests/integration/requests.h"

namespace tandem::testing::newer_peer_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<uint32_t> kPrompt = {263, 793, 286, 300, 410};
constexpr int kNew = 901;  // a field's number

void AddNew(google::protobuf::Message& message) {
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(kNew, 1);
}

auto Names(const std::string& type) {
  return AllOf(HasSubstr(absl::StrCat("tandem.", type, " has")), HasSubstr("field number 901"));
}

void ExpectInvalid(const grpc::Status& status, const std::string& type) {
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << type;
  EXPECT_THAT(status.error_message(), Names(type));
}

internal::v1::DraftRequest MakeOpen(uint64_t sequence) {
  internal::v1::DraftRequest request;
  request.mutable_open()->set_sequence(sequence);
  const internal::v1::Step step = FirstStep(sequence, kPrompt);
  *request.mutable_open()->mutable_options() = step.options();
  *request.mutable_open()->mutable_prefix() = step.prefix();
  return request;
}

internal::v1::DraftRequest MakeAdvance(uint64_t sequence, uint64_t round) {
  internal::v1::DraftRequest request;
  internal::v1::Advance& advance = *request.mutable_advance();
  advance.set_sequence(sequence);
  advance.set_round(round);
  advance.mutable_prefix()->set_keep(static_cast<uint32_t>(kPrompt.size()));
  advance.mutable_prefix()->set_hash(speculation::PrefixHash(kPrompt));
  advance.mutable_shape()->set_max_draft_tokens(4);
  return request;
}

class NewerPeerTest : public ::testing::Test {
 protected:
  ProcessCluster cluster_;
};

TEST_F(NewerPeerTest, ATargetRefusesWhatItDoesNotKnow) {
  {
    TargetStream stream(cluster_.target_address());
    internal::v1::TargetRequest hello = TargetStream::Hello();
    AddNew(*hello.mutable_hello());
    stream.Tell(hello);
    ExpectInvalid(stream.Finish(), "internal.v1.Hello");
  }
  for (const std::string type : {"TargetRequest", "Batch"}) {
    TargetStream stream(cluster_.target_address());
    stream.SayHello();
    internal::v1::TargetRequest request;
    *request.mutable_batch()->add_steps() = FirstStep(1, kPrompt);
    if (type == "Batch") {
      AddNew(*request.mutable_batch());
    } else {
      AddNew(request);
    }
    stream.Tell(request);
    ExpectInvalid(stream.Finish(), absl::StrCat("internal.v1.", type));
  }
  // A Step's own are its own: others in the Batch are answered.
  TargetStream stream(cluster_.target_address());
  stream.SayHello();
  internal::v1::TargetRequest request;
  for (uint64_t sequence : {1, 2, 3})
    *request.mutable_batch()->add_steps() = FirstStep(sequence, kPrompt);
  AddNew(*request.mutable_batch()->mutable_steps(0));
  AddNew(*request.mutable_batch()->mutable_steps(1)->mutable_options()->mutable_sampling());
  stream.Tell(request);
  std::vector<internal::v1::Verdict> verdicts(4);
  for (int came = 0; came < 3;) {
    const internal::v1::TargetReply reply = stream.Next();
    for (const internal::v1::Verdict& verdict : reply.verdicts().verdicts()) {
      verdicts[verdict.sequence()] = verdict;
      ++came;
    }
  }
  EXPECT_EQ(verdicts[1].status(), internal::v1::STATUS_INVALID);
  EXPECT_THAT(verdicts[1].problem().message(), Names("internal.v1.Step"));
  EXPECT_EQ(verdicts[2].status(), internal::v1::STATUS_INVALID);
  EXPECT_THAT(verdicts[2].problem().message(),
              AllOf(Names("v1.SamplingOptions"), HasSubstr("options.sampling")));
  EXPECT_EQ(verdicts[3].status(), internal::v1::STATUS_OK);
}

TEST_F(NewerPeerTest, ADraftRefusesWhatItDoesNotKnow) {
  {
    DraftStream stream(cluster_.draft_address());
    internal::v1::DraftRequest hello = DraftStream::Hello();
    AddNew(*hello.mutable_hello());
    stream.Tell(hello);
    ExpectInvalid(stream.Finish(), "internal.v1.Hello");
  }
  for (internal::v1::DraftRequest request : {MakeOpen(1), MakeAdvance(1, 1)}) {
    DraftStream stream(cluster_.draft_address());
    stream.SayHello();
    AddNew(request);  // beside what has an answer
    stream.Tell(request);
    ExpectInvalid(stream.Finish(), "internal.v1.DraftRequest");
  }
  DraftStream stream(cluster_.draft_address());
  stream.SayHello();
  internal::v1::DraftRequest open = MakeOpen(1);
  AddNew(*open.mutable_open()->mutable_options());
  stream.Tell(open);
  internal::v1::Block block = stream.Ask(MakeAdvance(1, 1)).block();
  EXPECT_EQ(block.status(), internal::v1::STATUS_INVALID);
  EXPECT_THAT(block.problem().message(), Names("internal.v1.SequenceOptions"));
  stream.Tell(MakeOpen(2));
  internal::v1::DraftRequest advance = MakeAdvance(2, 1);
  AddNew(*advance.mutable_advance()->mutable_shape());
  block = stream.Ask(advance).block();
  EXPECT_EQ(block.status(), internal::v1::STATUS_INVALID);
  EXPECT_THAT(block.problem().message(), Names("internal.v1.Shape"));
  EXPECT_EQ(stream.Ask(MakeAdvance(2, 1)).block().status(),
            internal::v1::STATUS_OK);  // the others are as they were
}

template <typename Stub>
void ExpectDescribeRefuses(std::unique_ptr<Stub> stub) {
  grpc::ClientContext context;
  v1::DescribeRequest request;
  AddNew(request);
  v1::DescribeReply reply;
  ExpectInvalid(stub->Describe(&context, request, &reply), "v1.DescribeRequest");
}

TEST_F(NewerPeerTest, AnOrchestratorRefusesWhatItDoesNotKnowAndSoDoesEveryDescribe) {
  cluster_.StartOrchestrator();
  v1::GenerateRequest request = GreedyRequest(kPrompt, 4, 2);
  AddNew(request);
  absl::Status status = Send(cluster_.channel(), request).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), Names("v1.GenerateRequest"));
  request = GreedyRequest(kPrompt, 4, 2);
  AddNew(*request.mutable_speculation());
  status = Send(cluster_.channel(), request).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), Names("v1.SpeculationOptions"));
  // What changes nothing of the text is ignored.
  request = GreedyRequest(kPrompt, 4, 2);
  const Reply without = Send(cluster_.channel(), request);
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(1900, 1);
  const Reply with = Send(cluster_.channel(), request);
  EXPECT_TRUE(with.status.ok()) << with.status;
  EXPECT_EQ(with.ids, without.ids);
  ExpectDescribeRefuses(v1::Generation::NewStub(cluster_.channel()));
  ExpectDescribeRefuses(
      internal::v1::Target::NewStub(transport::MakeChannel(cluster_.target_address())));
  ExpectDescribeRefuses(
      internal::v1::Draft::NewStub(transport::MakeChannel(cluster_.draft_address())));
}

}  // namespace
}  // namespace tandem::testing::newer_peer_test
