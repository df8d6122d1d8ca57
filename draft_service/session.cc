#include "draft_service/session.h"

#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/messages/handshake.h"
#include "common/messages/trace_context.h"
#include "common/messages/unknown_fields.h"
#include "common/sampling/sparse.h"
#include "draft_service/drafter_set.h"

namespace tandem::draft_service {

v1::Welcome MakeWelcome(const Options& options) {
  v1::Welcome welcome;
  welcome.set_protocol_revision(messages::kProtocolRevision);
  v1::Limits& limits = *welcome.mutable_limits();
  limits.set_max_message_bytes(messages::kMaxMessageBytes);
  limits.set_max_draft_tokens(options.max_draft_tokens);
  limits.set_max_q_entries(sampling::kMaxSparseEntries);
  limits.set_max_unanswered(1);
  limits.set_max_sequences(options.max_sequences);
  limits.set_context_length(options.context_length);
  welcome.set_instance_id(options.instance_id);
  welcome.set_tokenizer_id(options.tokenizer_id);
  welcome.set_model_id(options.model_id);
  welcome.set_numerics_id(options.numerics_id);
  welcome.set_vocabulary_size(options.vocabulary_size);
  // A chain of candidates serves every rule; how it is drawn and what of q is sent differs
  // (candidate_draw.h).
  for (v1::Rule rule : {v1::RULE_GREEDY, v1::RULE_SPECULATIVE, v1::RULE_BLOCK, v1::RULE_COUPLED,
                        v1::RULE_LENIENT}) {
    welcome.add_rules(rule);
  }
  for (std::string& name : DrafterSet(options.drafters, options.default_drafter).names()) {
    welcome.add_drafters(std::move(name));
  }
  return welcome;
}

SessionContext::SessionContext(const Options& options, DraftExecutor& draft_executor)
    : executor(draft_executor),
      welcome(MakeWelcome(options)),
      limits{options.max_draft_tokens, options.vocabulary_size} {}

Session::Session(SessionContext& context, std::shared_ptr<BlockSink> sink)
    : context_(context), sink_(std::move(sink)) {}

Session::~Session() = default;

void Session::OnMessage(v1::DraftRequest request) {
  if (state_ == State::kEnded) return;
  // What has an answer is refused by it; anything else that is unknown, beside it too, ends the
  // stream.
  const bool has_answer = request.has_open() || request.has_advance();
  if (absl::Status status =
          has_answer ? messages::RefuseUnknownHere(request) : messages::RefuseUnknown(request);
      !status.ok()) {
    End(std::move(status));
    return;
  }
  if (state_ == State::kNew && !request.has_hello()) {
    End(absl::FailedPreconditionError("the first message of a stream must be Hello"));
    return;
  }
  switch (request.kind_case()) {
    case v1::DraftRequest::kHello:
      OnHello(request.hello());
      return;
    case v1::DraftRequest::kOpen:
      OnOpen(std::move(*request.mutable_open()));
      return;
    case v1::DraftRequest::kAdvance:
      OnAdvance(std::move(*request.mutable_advance()));
      return;
    case v1::DraftRequest::kSubmitted:
      return;  // only blocks drafted in advance would build on it, and those are not served
    case v1::DraftRequest::kClose:
      Push(CloseArrives{stream_, request.close().sequence()});
      return;
    case v1::DraftRequest::KIND_NOT_SET:
      End(absl::InvalidArgumentError(
          "a message of the stream has no kind: hello, open, advance, submitted or close"));
      return;
  }
}

void Session::OnHello(const v1::Hello& hello) {
  if (state_ != State::kNew) {
    End(absl::FailedPreconditionError("Hello is the first message of a stream, and comes once"));
    return;
  }
  if (absl::Status status = messages::CheckHello(hello, context_.welcome); !status.ok()) {
    End(std::move(status));
    return;
  }
  if (context_.executor.draining()) {
    End(absl::UnavailableError("the draft is shutting down: ask another one"));
    return;
  }
  stream_ = context_.executor.NewStreamId();
  state_ = State::kOpen;
  v1::DraftReply reply;
  *reply.mutable_welcome() = context_.welcome;
  sink_->Send(std::move(reply));  // before the drafting thread can send a Block
  Push(StreamBegins{stream_, sink_, hello.client_id()});
}

void Session::OnOpen(v1::Open open) {
  OpenArrives event{stream_, open.sequence(), {}};
  if (absl::Status status = messages::RefuseUnknown(open); !status.ok()) {
    event.open = messages::Invalid("unknown field", std::string(status.message()));
  } else {
    event.open = CheckOpen(std::move(open), context_.limits);
  }
  Push(std::move(event));
}

void Session::OnAdvance(v1::Advance advance) {
  AdvanceArrives event{.stream = stream_,
                       .sequence = advance.sequence(),
                       .round = advance.round(),
                       .advance = {},
                       .arrived = context_.executor.clock().Now(),
                       .trace = {}};
  // Also of one that is refused: its trace shows why.
  if (advance.has_trace()) event.trace = messages::FromWire(advance.trace());
  if (absl::Status status = messages::RefuseUnknown(advance); !status.ok()) {
    event.advance = messages::Invalid("unknown field", std::string(status.message()));
  } else {
    event.advance = CheckAdvance(std::move(advance), context_.limits);
  }
  Push(std::move(event));
}

void Session::Push(DraftEvent event) {
  if (absl::Status status = context_.executor.Push(std::move(event)); !status.ok()) {
    End(std::move(status));
  }
}

void Session::OnHalfClose() {
  if (state_ == State::kNew) {
    End(absl::OkStatus());
  } else if (state_ == State::kOpen) {
    state_ = State::kEnded;
    Push(StreamFinishes{stream_});
  }
}

void Session::OnDone(absl::Status) {
  state_ = State::kEnded;
  Forget();
}

void Session::End(absl::Status status) {
  state_ = State::kEnded;
  Forget();
  sink_->Close(std::move(status));
}

void Session::Forget() {
  if (stream_ == 0) return;
  const StreamId stream = std::exchange(stream_, 0);
  context_.executor.Push(StreamEnds{stream}).IgnoreError();  // refused only when all has ended
}

}  // namespace tandem::draft_service
