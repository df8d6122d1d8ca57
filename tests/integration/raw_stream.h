// A stream to a service as its bare messages, after Hello and Welcome.
//
//   RawStream<internal::v1::Target::Stub, internal::v1::TargetRequest, internal::v1::TargetReply>
//       stream(address, &internal::v1::Target::Stub::Verify);
//   internal::v1::TargetReply reply = stream.Ask(request);
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/messages/handshake.h"
#include "common/speculation/prefix.h"
#include "common/transport/channel.h"
#include "tandem/internal/v1/draft.grpc.pb.h"
#include "tandem/internal/v1/target.grpc.pb.h"

namespace tandem::testing {

// Not thread-safe.
template <typename Stub, typename Request, typename Reply>
class RawStream {
 public:
  using Call =
      std::unique_ptr<grpc::ClientReaderWriter<Request, Reply>> (Stub::*)(grpc::ClientContext*);

  RawStream(const std::string& address, Call call)
      : stub_(transport::MakeChannel(address)), stream_((stub_.*call)(&context_)) {}
  ~RawStream() {
    context_.TryCancel();
    if (stream_ != nullptr) Finish();
  }

  // CHECKs that it is welcome.
  void SayHello() {
    const Reply welcome = Ask(Hello());
    TANDEM_CHECK(welcome.has_welcome());
  }
  static Request Hello() {
    Request request;
    request.mutable_hello()->set_protocol_revision(messages::kProtocolRevision);
    request.mutable_hello()->set_client_id("a bare client");
    request.mutable_hello()->set_incarnation(messages::NextIncarnation());
    return request;
  }
  void Tell(const Request& request) { TANDEM_CHECK(stream_->Write(request)); }
  // CHECKs that one comes.
  Reply Next() {
    Reply reply;
    TANDEM_CHECK(stream_->Read(&reply));
    return reply;
  }
  // The next message, after this one.
  Reply Ask(const Request& request) {
    Reply reply;
    TANDEM_CHECK(stream_->Write(request) && stream_->Read(&reply));
    return reply;
  }
  // What the stream ended with, when the service ends it.
  grpc::Status Finish() {
    for (Reply rest; stream_->Read(&rest);) {
    }
    const grpc::Status status = stream_->Finish();
    stream_ = nullptr;
    return status;
  }

 private:
  Stub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Reply>> stream_;
};

class TargetStream : public RawStream<internal::v1::Target::Stub, internal::v1::TargetRequest,
                                      internal::v1::TargetReply> {
 public:
  explicit TargetStream(const std::string& address)
      : RawStream(address, &internal::v1::Target::Stub::Verify) {}
};
class DraftStream : public RawStream<internal::v1::Draft::Stub, internal::v1::DraftRequest,
                                     internal::v1::DraftReply> {
 public:
  explicit DraftStream(const std::string& address)
      : RawStream(address, &internal::v1::Draft::Stub::Propose) {}
};

// The first Step of a greedy sequence that begins with `prompt` and has room for 64 tokens.
inline internal::v1::Step FirstStep(uint64_t sequence, const std::vector<uint32_t>& prompt) {
  internal::v1::Step step;
  step.set_sequence(sequence);
  step.set_round(1);
  step.mutable_prefix()->mutable_tokens()->Add(prompt.begin(), prompt.end());
  step.mutable_prefix()->set_hash(speculation::PrefixHash(prompt));
  step.mutable_options()->mutable_sampling()->set_temperature(0);
  step.mutable_options()->set_rule(v1::RULE_GREEDY);
  step.mutable_options()->set_prompt_tokens(static_cast<uint32_t>(prompt.size()));
  step.mutable_options()->set_max_length(64);
  return step;
}

}  // namespace tandem::testing
