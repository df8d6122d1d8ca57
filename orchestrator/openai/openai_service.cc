#include "orchestrator/openai/openai_service.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/flags/nearest_name.h"
#include "common/random/system.h"
#include "common/security/bearer_tokens.h"
#include "common/tokenizer/chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "orchestrator/generate/generator.h"
#include "orchestrator/generate/token_bytes.h"
#include "orchestrator/openai/chat_ids.h"
#include "orchestrator/openai/chat_request.h"
#include "orchestrator/openai/completion_call.h"
#include "orchestrator/openai/error.h"
#include "orchestrator/openai/fields.h"
#include "orchestrator/openai/page/page.h"
#include "orchestrator/openai/record_json.h"
#include "orchestrator/openai/text_offsets.h"
#include "orchestrator/openai/token_routes.h"

namespace tandem::orchestrator {
namespace {

using base::JsonObject;
using base::JsonText;

constexpr absl::string_view kModels = "/v1/models";
constexpr absl::string_view kChat = "/v1/chat/completions";
constexpr absl::string_view kTokenize = "/tokenize";

enum class Kind { kText, kTokens, kGet, kPage };

struct Route {
  absl::string_view path;
  Kind kind = Kind::kGet;
  bool open = false;  // without a token

  bool post() const { return kind == Kind::kText || kind == Kind::kTokens; }
};
constexpr Route kRoutes[] = {
    {"/v1/completions", Kind::kText},
    {kChat, Kind::kText},
    {kTokenize, Kind::kTokens},
    {"/detokenize", Kind::kTokens},
    {kModels},
    {"/health", Kind::kGet, /*open=*/true},
    {"/version", Kind::kGet, /*open=*/true},
    {"/metrics"},
};
constexpr Route kPage = {"/", Kind::kPage, /*open=*/true};

const Route* Find(absl::string_view path) {
  for (const Route& route : kRoutes) {
    if (path == route.path) return &route;
  }
  if (IsPage(path)) return &kPage;
  // A model by its name.
  return absl::StartsWith(path, absl::StrCat(kModels, "/")) ? Find(kModels) : nullptr;
}

// The path is the client's own.
std::string UnknownPath(absl::string_view path) {
  const std::string shown(path.substr(0, kMaxShownName));
  std::vector<std::string> paths;
  for (const Route& route : kRoutes) paths.emplace_back(route.path);
  const std::string nearest = flags::NearestName(shown, paths);
  return absl::StrCat("unknown path '", shown, "'",
                      nearest.empty() ? "" : absl::StrCat(" (did you mean '", nearest, "'?)"));
}

// `arguments` is a JSON object on one line, or empty.
void AddArgument(absl::string_view name, absl::string_view value, std::string& arguments) {
  const bool first = arguments.empty() || arguments == "{}";
  if (first) arguments = "{}";
  arguments.insert(
      1, absl::StrCat(JsonText(name).text(), ":", JsonText(value).text(), first ? "" : ","));
}

void SetPrompt(const v1::GenerateRequest& prompt, v1::GenerateRequest& to) {
  if (prompt.has_text()) to.set_text(prompt.text());
  if (prompt.has_ids()) *to.mutable_ids() = prompt.ids();
}

// A request for each prompt.
std::vector<v1::GenerateRequest> AllOf(CompletionRequest request) {
  std::vector<v1::GenerateRequest> all;
  all.push_back(std::move(request.wire));
  for (v1::GenerateRequest& other : request.others) all.push_back(std::move(other));
  return all;
}

bool MethodFits(const Route& route, absl::string_view method) {
  return route.post() ? method == "POST" : method == "GET" || method == "HEAD";
}

// The method as logs and messages name it: nothing of it is the client's own.
absl::Status CheckToken(const http::Request& head, absl::string_view route,
                        security::BearerTokens& tokens) {
  absl::Status status = tokens.Check(head.Values("authorization"));
  const absl::Time now = absl::Now();
  if (!status.ok()) tokens.refusals().Refused(route, status.message(), head.client, now);
  tokens.refusals().Look(now);
  return status;
}

}  // namespace

OpenAiService::OpenAiService(OpenAiOptions options, Generator& generator,
                             std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                             const concurrency::Clock& clock, concurrency::Executor& workers,
                             security::BearerTokens* tokens)
    : options_(std::move(options)),
      generator_(generator),
      tokenizer_(std::move(tokenizer)),
      clock_(clock),
      tokens_(tokens),
      started_at_(absl::ToUnixSeconds(absl::Now())),
      unchecked_(options_.max_request_bytes),
      answers_(options_.max_answer_bytes),
      turns_(clock, workers, options_.worker_threads, options_.long_prompt_workers,
             options_.long_prompt_threads) {}

// Nothing: the request is taken so far.
std::optional<http::Response> OpenAiService::RefuseByHead(const http::Request& head) const {
  const Route* const route = Find(head.path);
  if (route == nullptr) return ErrorResponse(404, UnknownPath(head.path));
  if (!MethodFits(*route, head.method)) {
    http::Response response = ErrorResponse(
        405,
        absl::StrCat(route->path, " takes ", route->post() ? "POST" : "GET and HEAD", " only"));
    response.headers.push_back({"Allow", route->post() ? "POST" : "GET, HEAD"});
    return response;
  }
  if (tokens_ == nullptr && (!route->open || route->kind == Kind::kPage)) {
    absl::Status status = options_.browser_guard.CheckHost(head);
    if (status.ok() && route->post()) status = options_.browser_guard.CheckOrigin(head);
    if (!status.ok()) return ErrorResponse(403, status.message());
  }
  if (!route->post()) return std::nullopt;
  const absl::Status type = CheckContentType(head);
  if (!type.ok()) return ErrorResponse(415, type.message());
  return std::nullopt;
}

absl::Status OpenAiService::OnHead(const http::Request& head) {
  if (RefuseByHead(head).has_value()) {
    return absl::InvalidArgumentError("refused by its head");  // OnRequest says it in full
  }
  const Route* const route = Find(head.path);
  if (route->open || tokens_ == nullptr) return absl::OkStatus();
  return CheckToken(head, route->path, *tokens_);
}

void OpenAiService::OnRequest(http::Request request, std::shared_ptr<http::Reply> reply) {
  if (std::optional<http::Response> refused = RefuseByHead(request)) {
    return reply->Respond(*std::move(refused));
  }
  const Route* const route = Find(request.path);
  if (route->kind == Kind::kPage) return reply->Respond(PageResponse(request.path));
  const std::string client = request.client;
  if (route->kind == Kind::kText) ++open_calls_;
  const size_t bytes = request.body.size();
  auto work = [this, kind = route->kind, request = std::move(request),
               reply = std::move(reply)]() mutable {
    if (kind == Kind::kText) return Complete(std::move(request), std::move(reply));
    if (!request.refused.ok()) return reply->Respond(ErrorResponse(ToApiError(request.refused)));
    if (kind == Kind::kTokens) return Tokens(std::move(request), reply);
    reply->Respond(Get(request));
  };
  turns_.Post(client, bytes, std::move(work));
}

http::Response OpenAiService::Malformed(int code, absl::string_view reason) {
  return ErrorResponse(code, reason);
}

absl::StatusOr<std::shared_ptr<const void>> OpenAiService::Hold(const std::string& client,
                                                                size_t bytes) {
  return unchecked_.Take(client, bytes);
}

absl::StatusOr<CompletionRequest> OpenAiService::Parse(const http::Request& request) const {
  TANDEM_RETURN_IF_ERROR(request.refused);
  TANDEM_ASSIGN_OR_RETURN(const base::JsonValue body, ParseBody(request.body));
  TANDEM_ASSIGN_OR_RETURN(CompletionRequest parsed,
                          request.path == kChat ? ParseConversation(body) : ParseCompletion(body));
  if (parsed.model.has_value() && *parsed.model != options_.model_name) {
    return ModelNotFound(parsed.model->substr(0, 256), options_.model_name);
  }
  return parsed;
}

absl::StatusOr<CompletionRequest> OpenAiService::ParseConversation(
    const base::JsonValue& body) const {
  TANDEM_ASSIGN_OR_RETURN(ChatRequest chat, ParseChat(body));
  for (const auto& [name, value] : chat.conversation.options) {
    const tokenizer::ChatTemplate* const chat_template = options_.chat_template;
    if (chat_template != nullptr && chat_template->Mentions(name)) {
      AddArgument(name, value, chat.conversation.arguments);
    } else {
      chat.completion.ignored.push_back(name);
    }
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<uint32_t> ids, IdsOf(chat.conversation));
  chat.completion.wire.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return std::move(chat.completion);
}

absl::StatusOr<std::vector<uint32_t>> OpenAiService::IdsOf(const Conversation& conversation) const {
  return ChatIds(conversation, options_.chat_template, ContextLength(),
                 tokenizer_->max_token_bytes());
}

void OpenAiService::Complete(http::Request request, std::shared_ptr<http::Reply> reply) {
  CallContext context;
  context.traceparent = std::string(request.Value("traceparent"));
  context.tracestate = absl::StrJoin(request.Values("tracestate"), ",");
  context.request_id = std::string(request.Value("x-request-id"));
  context.client = request.client;
  absl::StatusOr<CompletionRequest> parsed = Parse(request);
  const bool is_chat = request.path == kChat;
  context.front.route = Find(request.path)->path;
  context.front.server = std::string(request.Value("host"));
  context.front.encrypted = request.encrypted;
  context.front.is_stream = parsed.ok() && parsed->stream;
  context.front.is_chat = is_chat;
  CompletionCallOptions options;
  if (is_chat) options.names.prompt = "messages";
  options.client = request.client;
  options.answers = &answers_;
  options.open_calls = &open_calls_;
  std::unique_ptr<CompletionWriter> writer;
  std::vector<v1::GenerateRequest> prompts(1);
  WriterOptions writing;
  if (parsed.ok()) {
    const absl::Status prepared = Prepare(*parsed, writing);
    options.names = parsed->names;
    if (!prepared.ok()) parsed = prepared;
  }
  if (parsed.ok()) {
    options.stream = parsed->stream;
    options.prompts = writing.prompts.size();
    if (parsed->timeout != absl::InfiniteDuration()) {
      context.deadline = clock_.Now() + parsed->timeout;
    }
    // One name for all prompts, by which the log has them.
    if (options.prompts > 1 && context.request_id.empty()) {
      context.request_id = absl::StrFormat("%016x", random::FromSystem());
    }
    const TokenBytes& token_bytes = generator_.parts().token_bytes;
    writer = std::make_unique<CompletionWriter>(
        std::move(writing), is_chat ? ChatForm(token_bytes) : TextForm(token_bytes));
    prompts = AllOf(*std::move(parsed));
    // Until the requests are checked.
    context.memory =
        std::make_shared<std::vector<std::shared_ptr<const void>>>(std::move(request.memory));
  } else {
    context.refused = parsed.status();
  }
  const auto call = std::make_shared<CompletionCall>(std::move(options), std::move(writer), reply);
  reply->Listen(call);
  for (uint32_t i = 0; i < prompts.size(); ++i) {
    if (!call->Begin(
            i, generator_.Generate(Parsed(std::move(prompts[i])), context, call->SinkOf(i)))) {
      return;
    }
  }
}

// What is written of the request, and how. Several prompts are all checked before the first one
// begins; so is one whose tokens are written.
absl::Status OpenAiService::Prepare(CompletionRequest& request, WriterOptions& writing) const {
  writing.model = options_.model_name;
  writing.created = absl::ToUnixSeconds(absl::Now());
  writing.samples = std::max(1u, request.wire.samples());
  writing.include_usage = request.include_usage;
  writing.return_token_ids = request.return_token_ids;
  writing.logprobs = request.logprobs;
  writing.echo_alone = request.echo_alone;
  writing.text_runs = request.wire.text_runs();
  writing.ignored = request.ignored;
  const v1::SpeculationOptions& speculation = request.wire.speculation();
  if (speculation.draft_tokens_case() == v1::SpeculationOptions::kFixed) {
    writing.draft_tokens = speculation.fixed();
  }
  const bool is_chat = request.names.prompt == "messages";
  const bool resolves = !request.others.empty() || (request.logprobs && !is_chat);
  // One seed for all, as the answer says.
  if (!request.others.empty() && !request.wire.has_seed()) {
    request.wire.set_seed(random::FromSystem());
  }
  std::vector<std::vector<uint32_t>> ids;
  writing.prompts.clear();
  for (size_t i = 0; i <= request.others.size(); ++i) {
    v1::GenerateRequest& prompt = i == 0 ? request.wire : request.others[i - 1];
    WriterPrompt& written = writing.prompts.emplace_back();
    if (request.echo) written.echo = Echo(prompt);
    if (!resolves) continue;
    if (i > 0) SetPrompt(std::exchange(prompt, request.wire), prompt);
    const std::string field = request.names.prompt;
    if (!request.others.empty()) request.names.prompt = absl::StrCat(field, "[", i, "]");
    TANDEM_RETURN_IF_ERROR(generator_.Resolve(prompt));
    request.names.prompt = field;
    ids.emplace_back(prompt.ids().ids().begin(), prompt.ids().ids().end());
    if (!request.echo || !request.logprobs) continue;
    written.ids = ids.back();
    written.offsets = PromptOffsets(
        written.echo, written.ids, [this] { return generator_.NewDetokenizer({}); },
        [this](uint32_t id) {
          return tokenizer_->IsSpecial(id) ? generator_.parts().token_bytes(id) : std::string();
        });
  }
  if (!request.logprobs || is_chat) return absl::OkStatus();
  std::vector<uint32_t> prefix(request.wire.output_prefix_ids().begin(),
                               request.wire.output_prefix_ids().end());
  writing.detokenizer = [this, ids = std::move(ids), prefix = std::move(prefix)](uint32_t prompt) {
    auto detokenizer = generator_.NewDetokenizer(ids[prompt]);
    for (const uint32_t id : prefix) detokenizer->Feed(id).IgnoreError();
    return detokenizer;
  };
  return absl::OkStatus();
}

// The prompt as text, for callers that want it before the completion.
std::string OpenAiService::Echo(const v1::GenerateRequest& request) const {
  if (request.has_text()) return request.text();
  const std::vector<uint32_t> ids(request.ids().ids().begin(), request.ids().ids().end());
  return tokenizer_->Decode(ids).value_or("");  // a wrong id is refused by the generator
}

v1::TokenizeReply OpenAiService::Reply(const std::vector<uint32_t>& ids, bool with_bytes) const {
  v1::TokenizeReply reply;
  reply.mutable_token_ids()->Add(ids.begin(), ids.end());
  for (const uint32_t id : ids) {
    if (with_bytes) reply.add_token_bytes(generator_.parts().token_bytes(id));
  }
  reply.set_context_length(ContextLength());
  return reply;
}

// The body is read in the client's turn here, and the answer to a text is made in its turn at the
// Generator.
void OpenAiService::Tokens(http::Request request, const std::shared_ptr<http::Reply>& reply) {
  const auto refuse = [reply](const absl::Status& status) {
    reply->Respond(ErrorResponse(ToApiError(status)));
  };
  const absl::StatusOr<base::JsonValue> body = ParseBody(request.body);
  if (!body.ok()) return refuse(body.status());
  CallContext context;
  context.client = request.client;
  context.memory =
      std::make_shared<std::vector<std::shared_ptr<const void>>>(std::move(request.memory));
  const auto respond = [reply](std::string answer) {
    http::Response response;
    response.body = std::move(answer);
    reply->Respond(std::move(response));
  };
  if (request.path == kTokenize) {
    absl::StatusOr<TokenizeBody> parsed = ParseTokenize(*body, options_.model_name);
    if (!parsed.ok()) return refuse(parsed.status());
    const bool with_texts = parsed->request.token_bytes();
    if (parsed->conversation.has_value()) {
      const auto ids = IdsOf(*parsed->conversation);
      if (!ids.ok()) return refuse(ids.status());
      return respond(TokenizeJson(Reply(*ids, with_texts), with_texts));
    }
    return generator_.Tokenize(Parsed(std::move(parsed->request)), std::move(context),
                               [=](const absl::StatusOr<v1::TokenizeReply>& tokens) {
                                 if (!tokens.ok()) return refuse(tokens.status());
                                 respond(TokenizeJson(*tokens, with_texts));
                               });
  }
  absl::StatusOr<v1::DetokenizeRequest> wire = ParseDetokenize(*body, options_.model_name);
  if (!wire.ok()) return refuse(wire.status());
  generator_.Detokenize(Parsed(*std::move(wire)), std::move(context),
                        [=](const absl::StatusOr<v1::DetokenizeReply>& text) {
                          if (!text.ok()) return refuse(text.status());
                          respond(DetokenizeJson(*text));
                        });
}

http::Response OpenAiService::Get(const http::Request& request) const {
  http::Response response;
  if (request.path == "/health") return Health();
  if (request.path == "/version") {
    response.body = JsonObject({{"version", base::Version()}}).text();
  } else if (request.path == "/metrics") {
    response.type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = options_.metrics();
  } else {
    return Models(request.path);
  }
  return response;
}

uint32_t OpenAiService::ContextLength() const {
  v1::DescribeReply description;
  const absl::Status described = generator_.Describe({}, description);
  return described.ok() ? description.welcome().limits().context_length() : 0;
}

http::Response OpenAiService::Health() const {
  const absl::Status ready = options_.ready();
  if (!ready.ok()) return ErrorResponse(503, ready.message());
  http::Response response;
  response.body = JsonObject({{"status", "ok"}}).text();
  return response;
}

http::Response OpenAiService::Models(absl::string_view path) const {
  v1::ListModelsReply list;
  const absl::Status listed = generator_.ListModels({}, list);
  if (!listed.ok()) return ErrorResponse(ToApiError(listed));
  const v1::Model& served = list.models(0);
  std::vector<JsonText> rules;
  for (int rule : served.rules()) rules.emplace_back(RuleName(static_cast<v1::Rule>(rule)));
  const JsonObject model({{"id", options_.model_name},
                          {"object", "model"},
                          {"created", started_at_},
                          {"owned_by", "tandem"},
                          {"max_model_len", served.context_length()},
                          {"tandem", JsonObject({{"target_model_id", served.target_model_id()},
                                                 {"numerics_id", served.numerics_id()},
                                                 {"tokenizer_id", served.tokenizer_id()},
                                                 {"vocabulary_size", served.vocabulary_size()},
                                                 {"rules", rules},
                                                 {"drafters", JsonText::Array(served.drafters())},
                                                 {"chat_template", served.has_chat_template()}})}});
  http::Response response;
  if (absl::ConsumePrefix(&path, absl::StrCat(kModels, "/"))) {
    if (path != options_.model_name) {
      return ErrorResponse(ToApiError(ModelNotFound(path.substr(0, 256), options_.model_name)));
    }
    response.body = model.text();
  } else {
    response.body = JsonObject({{"object", "list"}, {"data", std::vector<JsonText>{model}}}).text();
  }
  return response;
}

}  // namespace tandem::orchestrator
