// The Generator's calls with one answer.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/messages/handshake.h"
#include "common/messages/unknown_fields.h"
#include "common/tokenizer/tokenizer.h"
#include "orchestrator/draft/draft_pool.h"
#include "orchestrator/generate/generator.h"
#include "orchestrator/verify/target_pool.h"

namespace tandem::orchestrator {
namespace {

// An answer has no place to tell of ignored fields, and none is logged.
absl::Status RefuseUnknown(const google::protobuf::Message& request) {
  std::vector<std::string> ignored;
  return messages::RefuseUnknownOfClient(request, ignored);
}

}  // namespace

absl::Status Generator::Describe(const v1::DescribeRequest& request,
                                 v1::DescribeReply& reply) const {
  TANDEM_RETURN_IF_ERROR(RefuseUnknown(request));
  if (request.token_hashes_count() > messages::kMaxTokenHashes) {
    return absl::InvalidArgumentError(absl::StrCat("token_hashes_count is ",
                                                   request.token_hashes_count(), "; at most ",
                                                   messages::kMaxTokenHashes));
  }
  v1::Welcome& welcome = *reply.mutable_welcome();
  if (std::optional<v1::Welcome> target = parts_.verify->welcome()) welcome = *std::move(target);
  welcome.set_protocol_revision(messages::kProtocolRevision);
  welcome.set_instance_id(instance_id_);
  welcome.set_tokenizer_id(tokenizer_->content_id());
  welcome.set_vocabulary_size(tokenizer_->vocabulary_size());
  for (v1::Peer& peer : parts_.verify->Peers()) *reply.add_peers() = std::move(peer);
  if (parts_.draft != nullptr) {
    for (v1::Peer& peer : parts_.draft->Peers()) *reply.add_peers() = std::move(peer);
  }
  if (parts_.speculation_totals) *reply.mutable_speculation() = parts_.speculation_totals();
  const uint64_t end =
      std::min<uint64_t>(tokenizer_->vocabulary_size(),
                         uint64_t{request.token_hashes_from()} + request.token_hashes_count());
  for (uint64_t id = request.token_hashes_from(); id < end; ++id) {
    reply.add_token_hashes(tokenizer_->TokenHash(static_cast<uint32_t>(id)));
  }
  return absl::OkStatus();
}

absl::Status Generator::ListModels(const v1::ListModelsRequest& request,
                                   v1::ListModelsReply& reply) const {
  TANDEM_RETURN_IF_ERROR(RefuseUnknown(request));
  v1::Model& model = *reply.add_models();
  model.set_id(parts_.model_name);
  model.set_tokenizer_id(tokenizer_->content_id());
  model.set_vocabulary_size(tokenizer_->vocabulary_size());
  model.set_has_chat_template(parts_.chat_template != nullptr);
  const std::optional<v1::Welcome> target = parts_.verify->welcome();
  if (!target.has_value()) return absl::OkStatus();
  model.set_context_length(target->limits().context_length());
  const uint32_t room = parts_.verify->max_length(target->model_id());
  model.set_max_length(room == 0 ? model.context_length() : std::min(room, model.context_length()));
  model.set_target_model_id(target->model_id());
  model.set_numerics_id(target->numerics_id());
  *model.mutable_rules() = target->rules();
  *model.mutable_default_sampling() = target->default_sampling();
  if (parts_.draft == nullptr) return absl::OkStatus();
  model.set_draft_model_id(parts_.draft->model_id());
  for (std::string& drafter : parts_.draft->drafters()) model.add_drafters(std::move(drafter));
  return absl::OkStatus();
}

template <typename Request, typename Reply>
void Generator::Answer(Unparsed<Request> unparsed, CallContext context,
                       absl::StatusOr<Reply> (*answer)(const Request& request,
                                                       const TokenFacts& facts),
                       std::function<void(absl::StatusOr<Reply>)> done) {
  InTurn(std::move(context), unparsed.bytes,
         [this, parse = std::move(unparsed.parse), answer, done = std::move(done)](
             absl::Status status, std::shared_ptr<const void>& memory) mutable {
           Request request;
           if (status.ok()) status = parse(request, memory);
           if (status.ok()) status = RefuseUnknown(request);
           if (!status.ok()) return done(std::move(status));
           done(answer(request, Facts()));
         });
}

void Generator::Tokenize(Unparsed<v1::TokenizeRequest> request, CallContext context,
                         std::function<void(absl::StatusOr<v1::TokenizeReply>)> done) {
  Answer(std::move(request), std::move(context), &orchestrator::Tokenize, std::move(done));
}

void Generator::Detokenize(Unparsed<v1::DetokenizeRequest> request, CallContext context,
                           std::function<void(absl::StatusOr<v1::DetokenizeReply>)> done) {
  Answer(std::move(request), std::move(context), &orchestrator::Detokenize, std::move(done));
}

TokenFacts Generator::Facts() const {
  TokenFacts facts;
  if (const auto target = parts_.verify->welcome()) {
    facts.context_length = target->limits().context_length();
  }
  FillPromptFacts(facts);
  facts.token_bytes = parts_.token_bytes;
  facts.decode = [this](absl::Span<const uint32_t> ids) { return tokenizer_->Decode(ids); };
  return facts;
}

}  // namespace tandem::orchestrator
