// Whatever is wrong with what people and peers give us, the error names it and says what would be
// right; nothing is ignored, and nothing is adjusted.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"

namespace tandem::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Model directories, as whole commands see them.
class BadModelTest : public ::testing::Test {
 protected:
  std::string Model(const std::string& name, uint32_t vocabulary_size = 8) {
    const std::string directory = folder_.path() + "/" + name;
    WriteTinyLlama(directory, vocabulary_size, 1);
    return directory;
  }

  // Must end by itself, with an error.
  std::string ServeError(const std::string& target, const std::string& draft = "") {
    std::vector<std::string> flags = {"serve", "--listen=127.0.0.1:0", "--target-model=" + target};
    if (!draft.empty()) flags.push_back("--draft-model=" + draft);
    CommandResult result = RunCommand("tandem", flags);
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_THAT(result.output, Not(HasSubstr("ready")));
    return result.output;
  }

  ScratchFolder folder_;
};

TEST_F(BadModelTest, UnknownDirectory) {
  EXPECT_THAT(ServeError("/no/such/model"), HasSubstr("/no/such/model"));
  CommandResult result =
      RunCommand("tandem-target", {"--listen=127.0.0.1:0", "--model=/no/such/model"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("/no/such/model"));
}

TEST_F(BadModelTest, TruncatedSafetensors) {
  const std::string directory = Model("cut");
  const std::string file = directory + "/model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 100);
  EXPECT_THAT(ServeError(directory), HasSubstr("model.safetensors"));
}

TEST_F(BadModelTest, WrongShape) {
  const std::string directory = Model("shape");
  std::string config = ReadFile(directory + "/config.json");
  const std::string right = "\"intermediate_size\":24";
  ASSERT_THAT(config, HasSubstr(right));
  config.replace(config.find(right), right.size(), "\"intermediate_size\":32");
  WriteFile(directory + "/config.json", config);
  // All three at once, each with both shapes.
  EXPECT_THAT(ServeError(directory),
              AllOf(HasSubstr("gate_proj"), HasSubstr("up_proj"), HasSubstr("down_proj"),
                    HasSubstr("24"), HasSubstr("32")));
}

TEST_F(BadModelTest, TokenizersThatDiffer) {
  const std::string target = Model("target");
  const std::string draft = Model("draft");
  std::string json = ReadFile(draft + "/tokenizer.json");
  ASSERT_THAT(json, HasSubstr("\"c\":2"));
  json.replace(json.find("\"c\":2"), 5, "\"z\":2");
  WriteFile(draft + "/tokenizer.json", json);
  const std::string error = ServeError(target, draft);
  EXPECT_THAT(error, HasSubstr("token 2"));
  EXPECT_THAT(error, HasSubstr(LoadTokenizer(target)->content_id()));
  EXPECT_THAT(error, HasSubstr(LoadTokenizer(draft)->content_id()));
}

TEST(BadFlagTest, OutOfRange) {
  struct {
    std::vector<std::string> flags;
    std::string expected;
  } const cases[] = {
      {{"generate", "--prompt=x", "--temperature=-1"}, "--temperature=-1"},
      {{"generate", "--prompt=x", "--draft-tokens=99"}, "--draft-tokens=99"},
      {{"generate", "--prompt="}, "empty"},
      {{"generate", "--prompt=x", "--top-pp=1"}, "--top-pp"},
      {{"serve", "--target-model=x", "--threads=0"}, "--threads=0"},
      {{"serve"}, "--target-model"},
      {{"serve", "--target-model=x", "--listen=here"}, "here"},
      {{"bench", "--repeats=0"}, "--repeats=0"},
      {{"sing"}, "'sing'"},
  };
  for (const auto& test : cases) {
    CommandResult result = RunCommand("tandem", test.flags);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("error:"), HasSubstr(test.expected)));
  }
}

TEST(BadFlagTest, OfTheServices) {
  for (const char* binary : {"tandem-target", "tandem-draft", "tandem-orchestrator"}) {
    CommandResult result = RunCommand(binary, {"--no_such_flag=1"});
    EXPECT_NE(result.exit_code, 0) << binary;
    EXPECT_THAT(result.output, HasSubstr("no_such_flag")) << binary;
    result = RunCommand(binary, {"--listen=nowhere"});
    EXPECT_NE(result.exit_code, 0) << binary;
  }
  CommandResult result = RunCommand(
      "tandem-target",
      {absl::StrCat("--model=", kDemoTarget), "--listen=127.0.0.1:0", "--most_sequences=0"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, AllOf(HasSubstr("most_sequences"), HasSubstr("65536")));
}

TEST(BadFlagTest, NobodyThere) {
  CommandResult result =
      RunCommand("tandem", {"generate", "--prompt=x", "--orchestrator=127.0.0.1:1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("hint:")));
}

class BadRequestTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cluster_ = new InProcessCluster(DemoOptions()); }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }

  static v1::GenerateRequest Good() {
    v1::GenerateRequest request;
    request.set_text("Once upon a time");
    request.set_max_tokens(3);
    return request;
  }

  static std::string Refusal(const v1::GenerateRequest& request) {
    Reply reply = Send(cluster_->channel(), request);
    EXPECT_EQ(reply.status.code(), absl::StatusCode::kInvalidArgument) << reply.status;
    EXPECT_TRUE(reply.ids.empty());
    return std::string(reply.status.message());
  }

  static InProcessCluster* cluster_;
};

InProcessCluster* BadRequestTest::cluster_ = nullptr;

TEST_F(BadRequestTest, TheGoodOneIsGood) {
  EXPECT_TRUE(Send(cluster_->channel(), Good()).status.ok());
}

TEST_F(BadRequestTest, EmptyPrompt) {
  v1::GenerateRequest request = Good();
  request.set_text("");
  EXPECT_THAT(Refusal(request), HasSubstr("empty"));
  request.mutable_ids();
  EXPECT_THAT(Refusal(request), HasSubstr("empty"));
  request.clear_prompt();
  EXPECT_THAT(Refusal(request), HasSubstr("prompt"));
}

TEST_F(BadRequestTest, PromptLongerThanTheContext) {
  v1::GenerateRequest request = Good();
  request.clear_prompt();
  for (int i = 0; i < 1025; ++i) request.mutable_ids()->add_ids(5);
  EXPECT_THAT(Refusal(request), AllOf(HasSubstr("1025"), HasSubstr("1024")));
}

TEST_F(BadRequestTest, TokenThatIsNone) {
  v1::GenerateRequest request = Good();
  request.mutable_ids()->add_ids(4096);
  EXPECT_THAT(Refusal(request), AllOf(HasSubstr("4096"), HasSubstr("ids")));
}

TEST_F(BadRequestTest, OptionsOutOfRange) {
  v1::GenerateRequest request = Good();
  request.mutable_sampling()->set_temperature(-1);
  EXPECT_THAT(Refusal(request), AllOf(HasSubstr("temperature"), HasSubstr("-1"), HasSubstr("100")));
  request = Good();
  request.mutable_sampling()->set_top_p(0);
  EXPECT_THAT(Refusal(request), HasSubstr("top_p"));
  request = Good();
  request.mutable_speculation()->set_fixed(17);
  EXPECT_THAT(Refusal(request), AllOf(HasSubstr("17"), HasSubstr("16")));
  request = Good();
  request.mutable_speculation()->set_drafter("crystal-ball");
  EXPECT_THAT(Refusal(request), AllOf(HasSubstr("crystal-ball"), HasSubstr("prompt-lookup")));
  request = Good();
  request.set_max_tokens(5000);
  EXPECT_THAT(Refusal(request), AllOf(HasSubstr("max_tokens"), HasSubstr("5000")));
  request = Good();
  request.mutable_speculation()->set_rule(v1::RULE_GREEDY);
  EXPECT_THAT(Refusal(request), HasSubstr("temperature"));
}

TEST_F(BadRequestTest, FieldOfANewerProto) {
  v1::GenerateRequest request = Good();
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(77, 1);
  EXPECT_THAT(Refusal(request), HasSubstr("77"));
  request = Good();
  v1::SamplingOptions& sampling = *request.mutable_sampling();
  sampling.GetReflection()->MutableUnknownFields(&sampling)->AddVarint(78, 1);
  EXPECT_THAT(Refusal(request), AllOf(HasSubstr("78"), HasSubstr("sampling")));
  request = Good();
  request.mutable_speculation()->set_rule(static_cast<v1::Rule>(99));
  EXPECT_THAT(Refusal(request), HasSubstr("99"));
}

}  // namespace
}  // namespace tandem::testing
