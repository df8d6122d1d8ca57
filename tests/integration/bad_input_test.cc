// Whatever is wrong with the models and the flags that people give us, the error names it and says
// what would be right; nothing is ignored, and nothing is adjusted. Requests: refusals_test.cc.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"
#include "tests/support/taken_port.h"
#include "tests/support/wait.h"

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

// Weights that cannot be served, which is known once they are read, and something else that is
// wrong: that is told, for it is known without them.
class CheapestFirstTest : public BadModelTest {
 protected:
  std::string Nan(const std::string& name) {
    const std::string directory = Model(name);
    const std::string file = directory + "/model.safetensors";
    std::string bytes = ReadFile(file);
    bytes.replace(bytes.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));
    WriteFile(file, bytes);
    return directory;
  }
  std::string Error(const std::string& binary, std::vector<std::string> flags) {
    if (flags[0] != "derive-ngrams") flags.push_back("--listen=127.0.0.1:0");
    CommandResult result = RunCommand(binary, flags);
    EXPECT_EQ(result.exit_code, 1) << result.output;
    return result.output;
  }
};

TEST_F(CheapestFirstTest, WeightsThatAreNotNumbers) {
  const std::string model = Nan("nan");
  const std::string good = Model("good");
  const std::string says = " is NaN; download the model again";
  EXPECT_THAT(Error("tandem-target", {"--model=" + model}), HasSubstr(says));
  EXPECT_THAT(Error("tandem-draft", {"--model=" + model}), HasSubstr(says));
  EXPECT_THAT(ServeError(model), HasSubstr("--target-model: a weight is not a finite number"));
  EXPECT_THAT(ServeError(good, model), HasSubstr("--draft-model: a weight is not a finite number"));
}

TEST_F(CheapestFirstTest, AServicesOtherFiles) {
  const std::string model = Nan("nan");
  const std::string bare = Nan("bare");
  std::filesystem::remove(bare + "/tokenizer.json");
  for (const std::string binary : {"tandem-target", "tandem-draft"}) {
    EXPECT_THAT(Error(binary, {"--model=" + bare}), HasSubstr("tokenizer.json: No such file"));
    EXPECT_THAT(Error(binary, {"--model=" + model, "--port-file=/nowhere/port"}),
                HasSubstr("--port-file: cannot write /nowhere/port: No such file or directory"));
    EXPECT_THAT(Error(binary, {"--model=" + model, "--tls-certificate=/nowhere/c", "--tls-key=k"}),
                HasSubstr("TLS certificate /nowhere/c: No such file or directory"));
    EXPECT_THAT(Error(binary, {"--model=" + model, "--pool-tokens=4294967296"}),
                AllOf(HasSubstr("there is not enough memory. Needed: "), HasSubstr("hint: ")));
  }
  EXPECT_THAT(Error("tandem-draft", {"--model=" + model, "--ngrams=/nowhere/n"}),
              HasSubstr("/nowhere/n"));
  EXPECT_THAT(Error("tandem-model", {"derive-ngrams", "--model=" + model, "--out=/dev/full"}),
              HasSubstr("cannot write /dev/full: it is not a regular file"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(CheapestFirstTest, ServesOtherFiles) {
  const std::string model = Nan("nan");
  const auto serve = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"serve", "--target-model=" + model});
    return Error("tandem", std::move(flags));
  };
  EXPECT_THAT(serve({"--token-file=/nowhere/tokens"}), HasSubstr("/nowhere/tokens"));
  EXPECT_THAT(serve({"--port-file=/dev/full"}), HasSubstr("--port-file: cannot write /dev/full"));
  EXPECT_THAT(serve({"--http-listen=127.0.0.1:0", "--http-port-file=/nowhere/port"}),
              HasSubstr("cannot write /nowhere/port"));
  EXPECT_THAT(serve({"--tls-certificate=/nowhere/c", "--tls-key=/nowhere/k"}),
              HasSubstr("TLS certificate /nowhere/c"));
  EXPECT_THAT(serve({"--ngrams=/nowhere/n"}), HasSubstr("/nowhere/n"));
  // Of a draft that loads and a target that does not, and the other way round.
  const std::string other = Model("other");
  std::filesystem::remove(other + "/model.safetensors");
  EXPECT_THAT(ServeError(other, model), HasSubstr("--target-model: " + other + " has neither"));
  EXPECT_THAT(ServeError(model, other), HasSubstr("--draft-model: " + other + " has neither"));
  WriteFile(model + "/chat_template.jinja", "{% for %}");
  EXPECT_THAT(serve({}), HasSubstr("chat template cannot be read"));
}

// Each pool fits alone.
TEST_F(CheapestFirstTest, TwoPoolsThatDoNotFitTogether) {
  const std::string model = Nan("nan");
  const std::string draft = Model("draft");
  const auto serve = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"serve", "--target-model=" + model});
    return Error("tandem", std::move(flags));
  };
  const std::string error = serve({"--pool-tokens=4294967296"});
  const std::string before = "room for a cache of ";
  const size_t at = error.find(before);
  ASSERT_NE(at, std::string::npos) << error;
  const std::string most = absl::StrCat(std::stoll(error.substr(at + before.size())) / 10 * 6);
  EXPECT_THAT(serve({"--pool-tokens=" + most}), HasSubstr(" is NaN"));
  EXPECT_THAT(serve({"--draft-model=" + draft, "--draft-pool-tokens=" + most}),
              HasSubstr(" is NaN"));
  EXPECT_THAT(
      serve({"--draft-model=" + draft, "--draft-pool-tokens=" + most, "--pool-tokens=" + most}),
      HasSubstr("--target-model: " + model + ": there is not enough memory"));
}

// A port that is taken is told before anything is loaded: these models are not there.
TEST(BadFlagTest, TakenPort) {
  TakenPort taken;
  const std::string address = absl::StrCat("127.0.0.1:", taken.port());
  struct {
    const char* binary;
    std::vector<std::string> flags;
  } const cases[] = {
      {"tandem-draft", {"--model=/no/such"}},
      {"tandem-target", {"--model=/no/such"}},
      {"tandem-orchestrator", {"--target=127.0.0.1:1", "--tokenizer=/no/such"}},
      {"tandem", {"serve", "--target-model=/no/such"}},
  };
  for (const auto& test : cases) {
    for (const std::string flag : {"--listen", "--admin-listen"}) {
      std::vector<std::string> flags = test.flags;
      if (flag != "--listen") flags.push_back("--listen=127.0.0.1:0");
      flags.push_back(absl::StrCat(flag, "=", address));
      const CommandResult result = RunCommand(test.binary, flags);
      SCOPED_TRACE(test.binary + result.output);
      EXPECT_EQ(result.exit_code, 1);
      EXPECT_THAT(result.output,
                  AllOf(HasSubstr(absl::StrCat(flag, ": cannot listen on ", address,
                                               ": the port is taken: name a free one")),
                        Not(HasSubstr("/no/such"))));
      EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1);
    }
  }
  for (const std::string flag : {"--draft-listen", "--target-listen"}) {
    const CommandResult result =
        RunCommand("tandem", {"serve", "--target-model=/no/such", "--listen=127.0.0.1:0",
                              absl::StrCat(flag, "=", address)});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.output, HasSubstr(absl::StrCat(flag, ": cannot listen on ", address)));
  }
}

TEST(BadFlagTest, NobodyThere) {
  CommandResult result =
      RunCommand("tandem", {"generate", "--prompt=x", "--orchestrator=127.0.0.1:1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("hint: start one"), Not(HasSubstr("TLS"))));
}

// Somebody listens who is not an orchestrator that speaks plaintext.
TEST(BadFlagTest, SomebodyElseThere) {
  TakenPort other;
  const std::string address = absl::StrCat("127.0.0.1:", other.port());
  const CommandResult result =
      RunCommand("tandem", {"generate", "--prompt=x", "--orchestrator=" + address});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, AllOf(HasSubstr("no orchestrator answers at " + address),
                                   HasSubstr("hint: somebody listens there"),
                                   HasSubstr("the port may speak TLS; then give --tls-ca=FILE")));
}

// The ports of one orchestrator, taken for each other.
TEST(BadFlagTest, AWrongPortOfAnOrchestrator) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/http-port";
  Process orchestrator(
      "tandem-orchestrator",
      {"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0",
       "--http-port-file=" + file, "--target=127.0.0.1:1", "--tokenizer=" + DemoTarget()},
      "port_file");
  orchestrator.WaitForPort();
  std::string http_port;
  ASSERT_TRUE(WaitUntil([&] { return static_cast<bool>(std::ifstream(file) >> http_port); }));
  const auto generate = [](const std::string& port) {
    return RunCommand("tandem", {"generate", "--prompt=x", "--orchestrator=127.0.0.1:" + port});
  };
  const CommandResult http = generate(http_port);
  EXPECT_EQ(http.exit_code, 1);
  EXPECT_THAT(http.output, AllOf(HasSubstr("the port speaks HTTP/1.1: take the gRPC port"),
                                 Not(HasSubstr("speak TLS"))));

  std::smatch admin_port;
  const std::string log = orchestrator.Output();
  ASSERT_TRUE(std::regex_search(log, admin_port, std::regex(" admin_port=(\\d+)"))) << log;
  const CommandResult admin = generate(admin_port[1]);
  EXPECT_EQ(admin.exit_code, 1);
  EXPECT_THAT(admin.output, HasSubstr("take the port of an orchestrator's --listen"));

  Process of_http(
      "tandem-orchestrator",
      {"--listen=127.0.0.1:0", "--tokenizer=" + DemoTarget(), "--target=127.0.0.1:" + http_port},
      "port_file");
  EXPECT_TRUE(WaitUntil([&] {
    return absl::StrContains(of_http.Output(), "speaks HTTP/1.1: take the gRPC port");
  })) << of_http.Output();
}

}  // namespace
}  // namespace tandem::testing
