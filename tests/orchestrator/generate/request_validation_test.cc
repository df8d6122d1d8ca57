#include "orchestrator/generate/request_validation.h"

#include <google/protobuf/text_format.h>

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/generate/invalid.h"
#include "orchestrator/generate/request_names.h"

namespace tandem::orchestrator::request_validation_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelFacts Model() {
  ModelFacts model;
  model.context_length = 20;
  model.vocabulary_size = 100;
  model.eos_token_ids = {2};
  model.drafters = {"model", "prompt-lookup"};
  model.encode = [](const std::string& text,
                    const TextOptions&) -> absl::StatusOr<std::vector<uint32_t>> {
    return std::vector<uint32_t>(text.size(), 7);
  };
  return model;
}

v1::GenerateRequest Good() {
  v1::GenerateRequest request;
  request.set_text("abc");
  return request;
}

TEST(RequestValidation, FillsInTheDefaults) {
  auto valid = ValidateRequest(Good(), Model());
  ASSERT_TRUE(valid.ok()) << valid.status();
  EXPECT_EQ(valid->prompt_tokens(), 3u);
  EXPECT_EQ(valid->max_tokens, 17u) << "all the room";
  EXPECT_EQ(valid->sampling.temperature, 1.0);
  EXPECT_EQ(valid->rule, acceptance::Rule::kSpeculative);
  EXPECT_FALSE(valid->draft_tokens.has_value());
  EXPECT_THAT(valid->sampling.stop_token_ids, ElementsAre(2));
}

// No tokenizer makes fewer tokens of a text than its bytes over those of the longest token.
TEST(RequestValidation, ATextThatCannotFitIsNotTokenised) {
  ModelFacts model = Model();
  model.max_token_bytes = 4;
  size_t tokenised = 0;
  model.encode = [&tokenised](const std::string& text, const TextOptions&) {
    ++tokenised;
    return std::vector<uint32_t>(text.size() / 10, 7);
  };
  v1::GenerateRequest request;
  request.set_text(std::string(80, 'x'));
  EXPECT_TRUE(ValidateRequest(request, model).ok());
  EXPECT_EQ(tokenised, 1u);
  request.set_text(std::string(81, 'x'));
  const absl::Status status = ValidateRequest(request, model).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("81 bytes"), HasSubstr("20 tokens"), HasSubstr("at most 80")));
  EXPECT_EQ(tokenised, 1u);
}

TEST(RequestValidation, TheServersDefaultIsForRequestsThatSetNoLength) {
  ModelFacts model = Model();
  model.default_max_tokens = 10;
  v1::GenerateRequest request = Good();
  EXPECT_EQ(ValidateRequest(request, model)->max_tokens, 10u);
  request.set_max_tokens(17);
  EXPECT_EQ(ValidateRequest(request, model)->max_tokens, 17u) << "it is no limit";
  request.set_max_tokens(0);
  request.set_text(std::string(15, 'x'));
  EXPECT_EQ(ValidateRequest(request, model)->max_tokens, 5u) << "what there is room for";
  request = Good();
  request.mutable_sampling()->set_min_tokens(11);
  auto refused = ValidateRequest(request, model);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("0 to max_tokens, 10"));
}

TEST(RequestValidation, AProgramsDefaultIsLessWhereThereIsLessRoom) {
  const ModelFacts model = Model();
  v1::GenerateRequest request = Good();
  request.set_max_tokens(16);
  for (const bool fit : {false, true}) {
    request.set_fit_max_tokens(fit);
    for (const auto& [prompt, room] : {std::pair{4, 16}, {5, 15}, {18, 2}, {19, 1}, {20, 0}}) {
      request.set_text(std::string(static_cast<size_t>(prompt), 'x'));
      const auto valid = ValidateRequest(request, model);
      EXPECT_EQ(valid.ok(), room > 0 && (fit || room >= 16)) << fit << prompt;
      if (!valid.ok()) continue;
      EXPECT_EQ(valid->max_tokens, static_cast<uint32_t>(room));
    }
  }
}

// A client may read the limits out of the words, so they are those of OpenAI, and what is offered
// is accepted.
TEST(RequestValidation, AContextThatIsExceededIsToldInOpenAisWords) {
  const ModelFacts model = Model();
  v1::GenerateRequest request = Good();
  request.set_max_tokens(1000);
  request.set_text(std::string(19, 'x'));
  const auto message = [&] {
    const absl::Status status = ValidateRequest(request, model).status();
    EXPECT_TRUE(status.GetPayload(kContextExceeded).has_value()) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(message(),
            "max_tokens is 1000, and after a prompt of 19 tokens at most 1 can follow: "
            "this model's maximum context length is 20 tokens");
  request.set_max_tokens(1);
  EXPECT_TRUE(ValidateRequest(request, model).ok());
  request.set_text(std::string(20, 'x'));
  EXPECT_EQ(message(),
            "the prompt has 20 tokens, and this model's maximum context length is 20 "
            "tokens: there must be room for at least one more");
}

// What no target can ever hold is refused at once, and not by the target.
TEST(RequestValidation, ATextMayBeAsLongAsATargetHasRoomFor) {
  ModelFacts model = Model();
  model.max_length = 12;
  v1::GenerateRequest request = Good();
  EXPECT_EQ(ValidateRequest(request, model)->max_tokens, 9u) << "all the room";
  request.set_max_tokens(9);
  EXPECT_TRUE(ValidateRequest(request, model).ok());
  request.set_max_tokens(10);
  auto refused = ValidateRequest(request, model);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("max_tokens is 10"), HasSubstr("at most 9 can follow"),
                    HasSubstr("maximum context length is 12 tokens here, the room of a target"),
                    HasSubstr("its own is 20")));
  request = Good();
  request.set_text(std::string(12, 'x'));
  refused = ValidateRequest(request, model);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("has 12 tokens"), HasSubstr("context length is 12 tokens here")));
  model.max_length = 50;
  request = Good();
  EXPECT_EQ(ValidateRequest(request, model)->max_tokens, 17u) << "the context is less";
}

TEST(RequestValidation, TheSwitchesOfAPromptInText) {
  ModelFacts model = Model();
  std::vector<bool> seen;
  model.encode = [&seen](const std::string& text, const TextOptions& options) {
    seen = {options.add_special_tokens, options.parse_special_tokens};
    return std::vector<uint32_t>(text.size(), 7);
  };
  v1::GenerateRequest request = Good();
  ASSERT_TRUE(ValidateRequest(request, model).ok());
  EXPECT_THAT(seen, ElementsAre(true, true)) << "absent";
  request.set_parse_special_tokens(false);
  ASSERT_TRUE(ValidateRequest(request, model).ok());
  EXPECT_THAT(seen, ElementsAre(true, false));
  request.set_add_special_tokens(false);
  request.set_parse_special_tokens(true);
  ASSERT_TRUE(ValidateRequest(request, model).ok());
  EXPECT_THAT(seen, ElementsAre(false, true));
  request.mutable_ids()->add_ids(7);
  EXPECT_THAT(std::string(ValidateRequest(request, model).status().message()),
              HasSubstr("add_special_tokens is set, but the prompt is not a text"));
  request.clear_add_special_tokens();
  EXPECT_THAT(std::string(ValidateRequest(request, model).status().message()),
              HasSubstr("parse_special_tokens is set, but the prompt is not a text"));
}

TEST(RequestValidation, AConversation) {
  ModelFacts model = Model();
  model.max_token_bytes = 4;
  v1::GenerateRequest request;
  v1::Conversation& conversation = *request.mutable_conversation();
  const auto error = [&] {
    const absl::Status status = ValidateRequest(request, model).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error(), HasSubstr("the model has no chat template"));
  absl::StatusOr<std::vector<uint32_t>> ids = std::vector<uint32_t>{1, 2, 3};
  model.encode_conversation = [&ids](const v1::Conversation&) { return ids; };
  EXPECT_THAT(error(), HasSubstr("conversation.messages is empty"));
  conversation.add_messages()->set_role("user");
  auto valid = ValidateRequest(request, model);
  ASSERT_TRUE(valid.ok()) << valid.status();
  EXPECT_THAT(valid->prompt, ElementsAre(1, 2, 3));
  ids = std::vector<uint32_t>{100};
  EXPECT_THAT(error(), HasSubstr("conversation's ids[0] is 100"));
  for (const auto& [said, told] : std::map<std::string, std::string>{
           {"messages[0].role: …", "conversation.messages[0].role: …"},
           {"tools[1]: …", "conversation.tools[1]: …"},
           {"template_arguments: …", "conversation.template_arguments: …"},
           {"messages must come in turns", "conversation: messages must come in turns"}}) {
    ids = absl::InvalidArgumentError(said);
    EXPECT_EQ(error(), told);
  }
  conversation.mutable_messages(0)->set_content(std::string(81, 'x'));
  EXPECT_THAT(error(), HasSubstr("at most 80 can fit"));
}

TEST(RequestValidation, SeveralDraftersOrAllThatAreOffered) {
  ModelFacts model = Model();
  const auto drafters = [&](std::vector<std::string> names) {
    v1::GenerateRequest request = Good();
    request.mutable_speculation()->mutable_drafters()->Add(names.begin(), names.end());
    return ValidateRequest(request, model);
  };
  EXPECT_THAT(drafters({"prompt-lookup", "model"})->drafters,
              ElementsAre("prompt-lookup", "model"));
  EXPECT_THAT(drafters({"auto"})->drafters, ElementsAre("model", "prompt-lookup"));
  EXPECT_EQ(drafters({"model"})->drafter, "model") << "there is nothing to choose";
  EXPECT_TRUE(drafters({"model"})->drafters.empty());
  const absl::Status unknown = drafters({"model", "magic"}).status();
  EXPECT_THAT(std::string(unknown.message()),
              ::testing::HasSubstr("speculation.drafters[1] is \"magic\"; the drafts there are "
                                   "offer model, prompt-lookup"));
  EXPECT_THAT(std::string(drafters({"model", "promt-lookup"}).status().message()),
              ::testing::HasSubstr("did you mean prompt-lookup?"));
  // The orchestrator's default, where the request says nothing; and what it says itself goes
  // before.
  model.default_drafters = {"auto"};
  EXPECT_EQ(drafters({})->drafters.size(), 2u);
  EXPECT_EQ(drafters({"prompt-lookup"})->drafter, "prompt-lookup");
  model.drafters.clear();
  EXPECT_TRUE(drafters({})->drafters.empty()) << "nobody has said what there is";
  EXPECT_EQ(drafters({})->drafter, "");
}

// Which drafters there are is known by those that are connected; where none is, one may come.
TEST(RequestValidation, ADrafterIsRefusedByTheDraftsThereAre) {
  v1::GenerateRequest request = Good();
  ModelFacts model = Model();
  for (const char* offered : {"", "model", "prompt-lookup"}) {
    request.mutable_speculation()->set_drafter(offered);
    EXPECT_TRUE(ValidateRequest(request, model).ok()) << offered;
  }
  request.mutable_speculation()->set_drafter("magic");
  EXPECT_EQ(ValidateRequest(request, model).status().code(), absl::StatusCode::kInvalidArgument);
  model.drafters = {"magic"};
  EXPECT_TRUE(ValidateRequest(request, model).ok()) << "the orchestrator has no list of its own";
  model.drafters = {};
  auto valid = ValidateRequest(request, model);
  ASSERT_TRUE(valid.ok()) << valid.status();
  EXPECT_EQ(valid->drafter, "magic");
}

// The rule in force, whether it was asked for or follows from temperature and seed.
TEST(RequestValidation, ARuleIsRefusedByTheTargetThatDoesNotServeIt) {
  v1::GenerateRequest request = Good();
  ModelFacts model = Model();
  model.rules = {acceptance::Rule::kGreedy, acceptance::Rule::kCoupled};
  auto refused = ValidateRequest(request, model);  // no seed: speculative
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("speculation.rule"), HasSubstr("speculative"),
                    HasSubstr("it serves greedy, coupled")));
  request.mutable_speculation()->set_rule(v1::RULE_BLOCK);
  EXPECT_THAT(std::string(ValidateRequest(request, model).status().message()), HasSubstr("block"));
  request.mutable_sampling()->set_temperature(0);
  EXPECT_TRUE(ValidateRequest(request, model).ok()) << "greedy is in force";
  request = Good();
  request.set_seed(1);
  EXPECT_TRUE(ValidateRequest(request, model).ok()) << "coupled is in force";
  model.rules = {};
  EXPECT_TRUE(ValidateRequest(Good(), model).ok()) << "the target does not say";
}

// A tokenizer may have more ids than the model's embedding.
TEST(RequestValidation, ATextWithATokenThatTheModelDoesNotHaveIsRefused) {
  ModelFacts model = Model();
  model.encode = [](const std::string&, const TextOptions&) {
    return std::vector<uint32_t>{7, 100};
  };
  const absl::Status refused = ValidateRequest(Good(), model).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("text has a token"), HasSubstr("text's ids[1] is 100"),
                    HasSubstr("vocabulary size, 100")));
}

TEST(RequestValidation, EveryBadValueIsNamed) {
  const std::pair<std::string, std::vector<std::string>> bad[] = {
      {"ids {}", {"ids", "empty"}},
      {"ids { ids: 100 }", {"ids.ids[0]", "100"}},
      {"text: ''", {"text", "empty"}},
      {"text: 'xxxxxxxxxxxxxxxxxxxx'", {"20 tokens", "context length is 20 tokens"}},
      {"max_tokens: 18", {"max_tokens is 18", "at most 17"}},
      {"speculation { fixed: 17 }", {"speculation.fixed is 17; it must be 0 to 16"}},
      {"speculation { leniency: 1 }", {"speculation.rule is not RULE_LENIENT"}},
      {"speculation { drafter: 'magic' }", {"magic", "model, prompt-lookup"}},
      {"stop { strings: '' }", {"stop.strings[0]", "0 bytes"}},
      {"stop { token_ids: 100 }", {"stop.token_ids[0]", "100"}},
      {"output_prefix_ids: 100", {"output_prefix_ids[0]", "100"}},
      {"max_tokens: 1 output_prefix_ids: 1", {"output_prefix_ids", "max_tokens"}}};
  EXPECT_THAT(std::string(ValidateRequest({}, Model()).status().message()), HasSubstr("prompt"));
  for (const auto& [text, parts] : bad) {
    v1::GenerateRequest request = Good();
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &request)) << text;
    auto valid = ValidateRequest(request, Model());
    ASSERT_FALSE(valid.ok()) << parts[0];
    EXPECT_EQ(valid.status().code(), absl::StatusCode::kInvalidArgument);
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(valid.status().message()), HasSubstr(part));
    }
  }
}

TEST(RequestNames, TheClientsOwnOrNone) {
  v1::GenerateRequest request;
  GenerationRequest names;
  ASSERT_TRUE(FillNames(request, "", names).ok());
  EXPECT_EQ(names.id, "");
  EXPECT_EQ(names.user, "");
  ASSERT_TRUE(FillNames(request, "of-the-header", names).ok());
  EXPECT_EQ(names.id, "of-the-header");
  request.set_request_id("of-the-field");
  request.set_user("somebody \"else\"");
  ASSERT_TRUE(FillNames(request, "", names).ok());
  EXPECT_EQ(names.id, "of-the-field");
  EXPECT_EQ(names.user, "somebody \"else\"");
  EXPECT_TRUE(FillNames(request, "of-the-field", names).ok());
  const absl::Status two = FillNames(request, "another", names);
  EXPECT_EQ(two.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(two.message()), HasSubstr("give one of them"));
}

TEST(RequestNames, AreBounded) {
  GenerationRequest names;
  for (const std::string& id : {std::string(128, 'a'), std::string("!~")}) {
    v1::GenerateRequest request;
    request.set_request_id(id);
    EXPECT_TRUE(FillNames(request, id, names).ok()) << id;
  }
  for (const std::string& id : {std::string(129, 'a'), std::string("a b"), std::string("a\n"),
                                std::string("\xc3\xa4"), std::string("\x7f")}) {
    v1::GenerateRequest request;
    request.set_request_id(id);
    EXPECT_THAT(std::string(FillNames(request, "", names).message()),
                ::testing::StartsWith("request_id has"));
    EXPECT_THAT(std::string(FillNames({}, id, names).message()),
                ::testing::StartsWith("x-request-id has"));
  }
  v1::GenerateRequest request;
  request.set_user(std::string(256, 'u'));
  EXPECT_TRUE(FillNames(request, "", names).ok());
  request.set_user(std::string(257, 'u'));
  EXPECT_THAT(std::string(FillNames(request, "", names).message()),
              ::testing::StartsWith("user has 257 bytes"));
}

}  // namespace
}  // namespace tandem::orchestrator::request_validation_test
