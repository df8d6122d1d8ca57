#include "draft_service/serving/session.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/messages/handshake.h"
#include "common/messages/limits.h"
#include "common/messages/trace_context.h"
#include "common/messages/unknown_fields.h"
#include "common/serving/welcome.h"
#include "draft_service/drafters/drafter_set.h"

namespace tandem::draft_service {

namespace {

// Draft tokens in a tree that are drafted.
uint32_t ServedNodes(const Options& options) {
  const DrafterSet drafters(options.drafters, options.default_drafter);
  return drafters.tree_names().empty() ? 0 : options.max_nodes;
}

// What has an answer is refused by it; anything else that is unknown, beside it too, ends the
// stream.
absl::Status CheckOne(const internal::v1::DraftRequest& request) {
  const bool has_answer = request.has_open() || request.has_advance();
  return has_answer ? messages::RefuseUnknownHere(request) : messages::RefuseUnknown(request);
}

}  // namespace

v1::Welcome MakeWelcome(const Options& options) {
  v1::Welcome welcome = serving::MakeWelcome({.instance_id = options.instance_id,
                                              .tokenizer_id = options.tokenizer_id,
                                              .model_id = options.model_id,
                                              .numerics_id = options.numerics_id,
                                              .vocabulary_size = options.vocabulary_size,
                                              .context_length = options.context_length,
                                              .max_draft_tokens = options.max_draft_tokens,
                                              .max_sequences = options.max_sequences});
  // A chain of draft tokens serves every rule; how it is drawn and what of q is sent differs
  // (candidate_draw.h).
  for (v1::Rule rule : {v1::RULE_GREEDY, v1::RULE_SPECULATIVE, v1::RULE_BLOCK, v1::RULE_COUPLED,
                        v1::RULE_LENIENT}) {
    welcome.add_rules(rule);
  }
  welcome.add_features(messages::kFeatureConfidence);
  const DrafterSet drafters(options.drafters, options.default_drafter);
  for (std::string& name : drafters.names()) welcome.add_drafters(std::move(name));
  for (std::string& name : drafters.preparing_names()) {
    welcome.add_preparing_drafters(std::move(name));
  }
  for (std::string& name : drafters.one_hot_names()) welcome.add_one_hot_drafters(std::move(name));
  if (const uint32_t nodes = ServedNodes(options); nodes > 0) {
    welcome.add_features(messages::kFeatureTrees);
    welcome.mutable_limits()->set_max_nodes(nodes);
    for (std::string& name : drafters.tree_names()) welcome.add_tree_drafters(std::move(name));
  }
  return welcome;
}

SessionContext::SessionContext(const Options& options, Executor& drafting)
    : executor(drafting),
      welcome(MakeWelcome(options)),
      limits{options.max_draft_tokens, options.vocabulary_size, ServedNodes(options)} {}

Session::Session(SessionContext& context, std::shared_ptr<BlockSink> sink)
    : serving::Session<internal::v1::DraftRequest, Executor>(context.executor, context.welcome,
                                                             std::move(sink)),
      context_(context) {}

absl::Status Session::Check(internal::v1::DraftRequest& message) {
  auto* next = message.mutable_next();
  if (next->size() >= messages::kMaxDraftRequests || (message.has_hello() && !next->empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message has ", next->size(), " requests as its next ones: at most ",
                     messages::kMaxDraftRequests - 1, ", and none with Hello"));
  }
  google::protobuf::RepeatedPtrField<internal::v1::DraftRequest> held;
  held.Swap(next);
  absl::Status status = CheckOne(message);
  for (const internal::v1::DraftRequest& request : held) {
    if (request.has_hello() || !request.next().empty()) {
      status.Update(absl::InvalidArgumentError("next has Hello, or a request that has a next one"));
    }
    status.Update(CheckOne(request));
  }
  held.Swap(next);
  return status;
}

absl::Status Session::Admit(const internal::v1::Hello& /*hello*/, StreamId /*stream*/) {
  if (!executor().draining()) return absl::OkStatus();
  return absl::UnavailableError("the draft is shutting down: ask another one");
}

void Session::Handle(internal::v1::DraftRequest message) {
  HandleOne(message);
  for (internal::v1::DraftRequest& request : *message.mutable_next()) {
    if (stream() == StreamId()) return;  // it has ended
    HandleOne(request);
  }
}

void Session::HandleOne(internal::v1::DraftRequest& request) {
  switch (request.kind_case()) {
    case internal::v1::DraftRequest::kOpen:
      OnOpen(std::move(*request.mutable_open()));
      return;
    case internal::v1::DraftRequest::kAdvance:
      OnAdvance(std::move(*request.mutable_advance()));
      return;
    case internal::v1::DraftRequest::kClose:
      executor().queue().Push(
          Arrival(CloseArrives{stream(), SequenceId{request.close().sequence()}}));
      return;
    case internal::v1::DraftRequest::kSubmitted:
      PushRequest(SubmittedArrives{stream(), SequenceId{request.submitted().sequence()},
                                   base::BlockId{request.submitted().block_id().value()},
                                   request.submitted().nodes()});
      return;
    case internal::v1::DraftRequest::kHello:
      return;  // serving::Session takes it
    case internal::v1::DraftRequest::KIND_NOT_SET:
      End(absl::InvalidArgumentError(
          "a message of the stream has no kind: hello, open, advance, submitted or close"));
      return;
  }
}

void Session::OnOpen(internal::v1::Open open) {
  OpenArrives event{stream(), SequenceId{open.sequence()}, {}};
  if (absl::Status status = messages::RefuseUnknown(open); !status.ok()) {
    event.open = messages::Invalid("unknown field", std::string(status.message()));
  } else {
    event.open = CheckOpen(std::move(open), context_.limits);
  }
  PushRequest(std::move(event));
}

void Session::OnAdvance(internal::v1::Advance advance) {
  AdvanceArrives event{.stream = stream(),
                       .sequence = SequenceId{advance.sequence()},
                       .round = advance.round(),
                       .advance = {},
                       .arrived = executor().clock().Now(),
                       .trace = {}};
  // Also of one that is refused: its trace shows why.
  if (advance.has_trace()) event.trace = messages::FromWire(advance.trace());
  if (absl::Status status = messages::RefuseUnknown(advance); !status.ok()) {
    event.advance = messages::Invalid("unknown field", std::string(status.message()));
  } else {
    event.advance = CheckAdvance(std::move(advance), context_.limits);
  }
  PushRequest(std::move(event));
}

}  // namespace tandem::draft_service
