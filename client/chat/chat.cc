// `tandem chat` reads messages, a line each, and streams the answers of a model that has a chat
// template.
#include "client/common/commands.h"

#include <grpcpp/channel.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/chat/commands.h"
#include "client/chat/history.h"
#include "client/chat/options.h"
#include "client/common/accepted_text.h"
#include "client/common/command_line.h"
#include "client/common/connection.h"
#include "client/common/outcome.h"
#include "client/common/prompt.h"
#include "client/common/questions.h"
#include "client/common/terminal.h"
#include "common/base/status_macros.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"
#include "common/random/system.h"

namespace tandem::client {
namespace {

// "  30 tokens (stop) in 12 rounds, 2.5 per pass; 18 of 31 draft tokens accepted; 12.1 ms per
// token"
std::string Record(const Outcome& outcome) {
  const v1::AcceptanceRecord& record = outcome.last.speculation();
  std::string text = absl::StrFormat(
      "  %d tokens (%s) in %d rounds, %.1f a pass", outcome.last.usage().completion_tokens(),
      FinishReasonName(outcome.last.finish_reason()), record.rounds(), TokensPerPass(outcome.last));
  if (record.draft_tokens() > 0) {
    absl::StrAppendFormat(&text, "; %d of %d draft tokens accepted", record.accepted_tokens(),
                          record.draft_tokens());
  }
  absl::StrAppendFormat(&text, "; %.1f ms per token", MillisecondsPerToken(outcome.last));
  if (record.cached_tokens() > 0) {
    absl::StrAppendFormat(&text, "; %d prompt tokens not computed again", record.cached_tokens());
  }
  if (!record.exact()) absl::StrAppend(&text, "; NOT exact");
  return text + "\n";
}

// FAILED_PRECONDITION: the model takes no conversations.
absl::Status CheckTemplate(v1::Generation::StubInterface& stub) {
  TANDEM_ASSIGN_OR_RETURN(const v1::ListModelsReply reply, ListModels(stub));
  for (const v1::Model& model : reply.models()) {
    if (model.has_chat_template()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the model ", model.id(), " has no chat template, so it cannot chat\n",
        "  hint: the orchestrator reads one from chat_template.jinja or tokenizer_config.json of "
        "its --tokenizer; `tandem generate` continues a text without one"));
  }
  return absl::OkStatus();
}

class Chat {
 public:
  Chat(const ChatOptions& options, v1::Generation::StubInterface& stub)
      : options_(options),
        stub_(stub),
        style_(StyleFor(options.color, AskTerminal(STDOUT_FILENO))),
        at_terminal_(isatty(STDIN_FILENO) != 0),
        history_(options,
                 options.cache_scope.empty() ? absl::StrFormat("chat-%016x", random::FromSystem())
                                             : options.cache_scope,
                 style_.color) {}

  // Until the input ends. Whoever types may go on after a failure; a script ends with it.
  int Run() {
    if (at_terminal_ && !options_.quiet) {
      std::fprintf(stderr, "%s%s", kChatCommands, AcceptedLegend(style_).c_str());
    }
    std::string lines;
    while (ReadLines(lines)) {
      const ChatInput input = ReadChatInput(lines);
      if (input.command == ChatCommand::kQuit) return process::kExitOk;
      const int code = Follow(input);
      if (code != process::kExitOk && !at_terminal_) return code;
    }
    if (at_terminal_) std::fprintf(stderr, "\n");
    return process::kExitOk;
  }

 private:
  // A line, and those that it goes on in.
  bool ReadLines(std::string& lines) const {
    lines.clear();
    if (at_terminal_) std::fprintf(stderr, "> ");
    for (std::string line; std::getline(std::cin, line);) {
      lines += line;
      if (!absl::EndsWith(lines, "\\")) return true;
      lines.back() = '\n';
      if (at_terminal_) std::fprintf(stderr, "| ");
    }
    return !lines.empty();
  }

  int Follow(const ChatInput& input) {
    switch (input.command) {
      case ChatCommand::kMessage:
        return Answer(input.text);
      case ChatCommand::kReset:
        history_.Reset();
        break;
      case ChatCommand::kSystem:
        if (!IsUtf8(input.text)) return Wrong("/system: the text is not UTF-8");
        history_.SetSystem(input.text);
        break;
      case ChatCommand::kUndo:
        if (!history_.Undo()) return Wrong("/undo: nothing was said yet");
        break;
      case ChatCommand::kHelp:
        std::fprintf(stderr, "%s", kChatCommands);
        break;
      case ChatCommand::kUnknown:
        return Wrong(absl::StrCat("'", input.text,
                                  "' is not a command; /help lists them, and // begins a message "
                                  "with a slash",
                                  NearestChatCommand(input.text)));
      case ChatCommand::kNone:
      case ChatCommand::kQuit:
        break;
    }
    return process::kExitOk;
  }

  static int Wrong(absl::string_view what) {
    PrintError(absl::InvalidArgumentError(what));
    return process::kExitUsage;
  }

  int Answer(const std::string& text) {
    if (const absl::Status status = CheckPrompt(text, "the message"); !status.ok()) {
      return Wrong(status.message());
    }
    Outcome outcome;
    const auto print = [this](const v1::GenerateReply& reply) {
      if (reply.has_delta()) process::Print(AcceptedText(reply.delta(), style_));
    };
    const absl::Status status =
        Generate(stub_, history_.Ask(text), {options_.timeout, ""}, outcome, print);
    if (outcome.has_started()) process::Print("\n");
    if (WasCancelled()) {
      std::fprintf(stderr, "cancelled; not added to the conversation\n");
      return process::kExitCancelled;
    }
    if (!status.ok()) {
      PrintError(status);
      return process::kExitFailure;
    }
    history_.Add(text, outcome.samples[0].text);
    if (!options_.quiet) std::fprintf(stderr, "%s", Record(outcome).c_str());
    return process::kExitOk;
  }

  const ChatOptions& options_;
  v1::Generation::StubInterface& stub_;
  const TerminalStyle style_;  // of answers
  const bool at_terminal_;     // somebody types
  ChatHistory history_;
};

}  // namespace

int RunChat(absl::Span<const std::string> args) {
  ChatOptions options;
  flags::FlagSet flags("tandem chat",
                       "Reads messages from standard input, one per line, and streams the answers "
                       "of a model that has a chat template.");
  options.AddTo(flags);
  if (const auto code = ReadArguments(args, flags, [&] { return options.Validate(); })) {
    return *code;
  }
  CancelRequestsOnSignals(SignalsEnd::kRequest);
  int exit_code = process::kExitOk;
  const std::shared_ptr<grpc::Channel> channel = ConnectTo(options.orchestrator, exit_code);
  if (channel == nullptr) return exit_code;
  const auto stub = v1::Generation::NewStub(channel);
  if (const absl::Status status = CheckTemplate(*stub); !status.ok()) {
    PrintError(status);
    return process::kExitFailure;
  }
  return Chat(options, *stub).Run();
}

}  // namespace tandem::client
