// `tandem tokenize` turns a text into the tokens of the model that an orchestrator serves, and
// token ids into a text.
#include "client/common/commands.h"

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/common/command_line.h"
#include "client/common/connection.h"
#include "client/common/questions.h"
#include "client/tokenize/options.h"
#include "client/tokenize/tokens.h"
#include "common/base/status_macros.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"

namespace tandem::client {
namespace {

absl::StatusOr<std::string> TokensOf(const TokenizeOptions& options, const std::string& text,
                                     v1::Generation::StubInterface& stub) {
  v1::TokenizeRequest request;
  request.set_text(text);
  request.set_add_special_tokens(options.add_special_tokens);
  request.set_parse_special_tokens(options.parse_special_tokens);
  request.set_token_bytes(options.format != "ids");
  TANDEM_ASSIGN_OR_RETURN(const v1::TokenizeReply reply, Tokenize(stub, request));
  if (reply.token_bytes_size() != (request.token_bytes() ? reply.token_ids_size() : 0)) {
    return absl::InternalError("the service sent bytes that fit no tokens");
  }
  if (options.format == "text") return TokenTable(reply);
  return (options.format == "json" ? TokenJson(reply) : TokenIdList(reply)) + "\n";
}

absl::StatusOr<std::string> TextOf(const TokenizeOptions& options,
                                   v1::Generation::StubInterface& stub) {
  v1::DetokenizeRequest request;
  request.mutable_token_ids()->Add(options.ids.begin(), options.ids.end());
  TANDEM_ASSIGN_OR_RETURN(const v1::DetokenizeReply reply, Detokenize(stub, request));
  return (options.format == "json" ? TextJson(reply) : reply.text()) + "\n";
}

}  // namespace

int RunTokenize(absl::Span<const std::string> args) {
  TokenizeOptions options;
  flags::FlagSet flags("tandem tokenize",
                       "Converts a text to the tokens of the model that an orchestrator serves, "
                       "and token ids to text.",
                       "[TEXT] [flags]");
  options.AddTo(flags);
  std::string text;
  const auto check = [&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(options.Validate());
    if (!options.ids.empty()) return absl::OkStatus();
    TANDEM_ASSIGN_OR_RETURN(text, options.text.Read());
    return absl::OkStatus();
  };
  if (const auto code = ReadArguments(args, flags, check)) return *code;
  int exit_code = process::kExitOk;
  const std::shared_ptr<grpc::Channel> channel = ConnectTo(options.orchestrator, exit_code);
  if (channel == nullptr) return exit_code;
  const auto stub = v1::Generation::NewStub(channel);
  const absl::StatusOr<std::string> answer =
      options.ids.empty() ? TokensOf(options, text, *stub) : TextOf(options, *stub);
  if (!answer.ok()) {
    PrintError(answer.status());
    return process::kExitFailure;
  }
  process::Print(*answer);
  return process::kExitOk;
}

}  // namespace tandem::client
