#include "client/chat/history.h"

#include "client/common/say.h"

namespace tandem::client {
namespace {

constexpr int kMessagesOfTurn = 2;

}  // namespace

ChatHistory::ChatHistory(const ChatOptions& options, absl::string_view cache_scope,
                         bool text_runs) {
  options.request.Apply(request_);
  request_.set_max_tokens(static_cast<uint32_t>(options.max_tokens));
  request_.set_cache_scope(std::string(cache_scope));
  request_.set_text_runs(text_runs);
  request_.mutable_conversation()->set_template_arguments(options.template_arguments);
  SetSystem(options.system);
}

v1::GenerateRequest ChatHistory::Ask(absl::string_view text) const {
  v1::GenerateRequest request = request_;
  Say("user", text, *request.mutable_conversation());
  return request;
}

void ChatHistory::Add(absl::string_view text, absl::string_view answer) {
  Say("user", text, *request_.mutable_conversation());
  Say("assistant", answer, *request_.mutable_conversation());
}

bool ChatHistory::Undo() {
  auto& messages = *request_.mutable_conversation()->mutable_messages();
  if (messages.size() - first_ < kMessagesOfTurn) return false;
  messages.DeleteSubrange(messages.size() - kMessagesOfTurn, kMessagesOfTurn);
  return true;
}

void ChatHistory::Reset() {
  auto& messages = *request_.mutable_conversation()->mutable_messages();
  messages.DeleteSubrange(first_, messages.size() - first_);
}

void ChatHistory::SetSystem(absl::string_view text) {
  v1::Conversation& conversation = *request_.mutable_conversation();
  conversation.clear_messages();
  if (!text.empty()) Say("system", text, conversation);
  first_ = conversation.messages_size();
}

}  // namespace tandem::client
