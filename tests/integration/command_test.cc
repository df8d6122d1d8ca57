// The `tandem` command against a running `tandem serve`, as a user types them.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"

namespace tandem::testing {
namespace {

using base::JsonValue;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CommandTest : public ::testing::Test {
 protected:
  CommandTest()
      : server_("tandem",
                {"serve", "--listen=127.0.0.1:0", absl::StrCat("--target-model=", DemoTarget()),
                 absl::StrCat("--draft-model=", DemoDraft())},
                "port-file"),
        address_(absl::StrCat("--orchestrator=127.0.0.1:", server_.WaitForPort())) {}

  std::vector<std::string> Generate(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"generate", address_, "--prompt=Once upon a time"});
    return flags;
  }

  Process server_;
  const std::string address_;
};

// The rows of a time line: what names a pass.
size_t CountRows(absl::string_view picture) {
  size_t rows = 0;
  for (absl::string_view line : absl::StrSplit(picture, '\n')) {
    const size_t pass = line.find("  #");
    if (pass != line.npos && absl::ascii_isdigit(line[pass + 3])) ++rows;
  }
  return rows;
}

TEST_F(CommandTest, ATimelineShowsEveryRoundOfTheRecord) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/record.json";
  const CommandResult result =
      RunCommand("tandem", Generate({"--temperature=0.8", "--seed=7", "--max-tokens=150",
                                     "--samples=2", "--timeline=all", "--record=" + file}));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const size_t begin = result.output.find("timeline: ");
  ASSERT_NE(begin, std::string::npos) << result.output;
  const std::string picture = result.output.substr(begin);
  const JsonValue record = ParseJson(ReadFile(file));
  const size_t rounds = record["rounds"].size();
  EXPECT_EQ(rounds, record["speculation"]["rounds"].Unsigned());
  EXPECT_EQ(CountRows(picture), rounds) << picture;
  EXPECT_THAT(picture, AllOf(HasSubstr(absl::StrCat(rounds, " rounds of 2 samples in ")),
                             HasSubstr(" sample 1, "), HasSubstr("slowest: "),
                             Not(HasSubstr("\x1b"))));  // to a file
  for (absl::string_view line : absl::StrSplit(picture, '\n')) {
    const auto columns = std::count_if(line.begin(), line.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    });
    EXPECT_LE(columns, 80) << line;
  }

  // What the rounds say adds up to what the request says.
  uint64_t tokens = 0;
  uint64_t accepted = 0;
  double network = 0;
  for (const JsonValue& round : record["rounds"].Elements()) {
    tokens += round["tokens"].Unsigned().value();
    accepted += round["accepted_tokens"].Unsigned().value();
    network += round["stages_ms"]["network"].Number().value();
  }
  EXPECT_EQ(tokens, record["usage"]["completion_tokens"].Unsigned());
  EXPECT_EQ(accepted, record["speculation"]["accepted_tokens"].Unsigned());
  // Microseconds, rounded down in each round and in the sum.
  EXPECT_NEAR(network, record["timing_ms"]["stages"]["network"].Number().value(), 0.001 * rounds);
}

TEST_F(CommandTest, BenchKeepsManyRunning) {
  CommandResult result =
      RunCommand("tandem", {"bench", address_, "--concurrency=1,4", "--modes=off,3", "--repeats=1",
                            "--window=300ms", "--max-tokens=16", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("4 runs of at least 300ms each: 1.2s or more"));
  const JsonValue json = ParseJson(result.output.substr(result.output.find('{')));
  ASSERT_EQ(json["load"].size(), 2u);
  for (const JsonValue& table : json["load"].Elements()) {
    for (const char* mode : {"off", "K=3"}) {
      const JsonValue of = table["modes"][mode];
      SCOPED_TRACE(of.Dump());
      EXPECT_GT(of["requests"].Number(), 0);
      EXPECT_EQ(of["first_token_ms"]["count"].Number(), of["requests"].Number());
      EXPECT_EQ(of["failures"].size(), 0u);
      // The target's own counters.
      EXPECT_GE(of["pass"]["sequences"].Number(), 1.0);
      EXPECT_LE(of["pass"]["sequences"].Number(), table["concurrency"].Number());
      EXPECT_GE(of["pass"]["rows"].Number(), of["pass"]["sequences"].Number());
      EXPECT_GT(of["device_share"].Number(), 0.0);
      EXPECT_LE(of["device_share"].Number(), 1.0);
    }
    EXPECT_EQ(table["modes"]["off"]["tokens_per_round"].Number(), 1.0);
    EXPECT_GT(table["modes"]["K=3"]["ratio_to_off"]["median"].Number(), 0.0);
    EXPECT_GT(table["modes"]["K=3"]["accepted_per_round"].Number(), 0.0);
  }
}

TEST_F(CommandTest, BenchAfterASilence) {
  CommandResult result = RunCommand(
      "tandem", {"bench", address_, "--idle", "--silence=50ms", "--repeats=2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const JsonValue json = ParseJson(result.output.substr(result.output.find('{')));
  ASSERT_EQ(json["idle"]["pairs"].size(), 2u);
  EXPECT_GT(json["idle"]["after_silence_ms"]["min"].Number(), 0.0);
  EXPECT_GT(json["idle"]["busy_ms"]["min"].Number(), 0.0);
}

TEST_F(CommandTest, WithoutAnExporterNothingIsTraced) {
  const CommandResult result = RunCommand("tandem", Generate({"--max-tokens=2", "--trace"}));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("not traced: this orchestrator exports no traces"));
}

// The demo model with a tokenizer that has one id more than the model's embedding. Returns the
// folder.
std::string WithOneMoreId(const std::string& model) {
  namespace fs = std::filesystem;
  const fs::path to =
      fs::path(::testing::TempDir()) /
      absl::StrCat("tandem_more_ids_", getpid(), "_", fs::path(model).filename().string());
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(model)) {
    const fs::path file = to / entry.path().filename();
    if (entry.path().filename() != "tokenizer.json") {
      fs::create_symlink(fs::absolute(entry.path()), file);
      continue;
    }
    const std::string json = ReadFile(entry.path().string());
    const std::string more = absl::StrReplaceAll(
        json, {{"\n  ],\n  \"normalizer\"",
                ",{\"id\":4096,\"content\":\"<|more|>\",\"single_word\":false,\"lstrip\":false,"
                "\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normalizer\""}});
    EXPECT_NE(more, json);
    std::ofstream(file) << more;
  }
  return to.string();
}

TEST(ServeTest, ATokenizerThatIsLargerThanTheModelsIsSaidAndServed) {
  const std::string target = WithOneMoreId(DemoTarget());
  const std::string draft = WithOneMoreId(DemoDraft());
  Process server("tandem",
                 {"serve", "--listen=127.0.0.1:0", absl::StrCat("--target-model=", target),
                  absl::StrCat("--draft-model=", draft)},
                 "port-file");
  const std::string address = absl::StrCat("--orchestrator=127.0.0.1:", server.WaitForPort());
  const auto generate = [&address](const std::string& prompt) {
    return RunCommand(
        "tandem", {"generate", address, "--prompt=" + prompt, "--temperature=0", "--max-tokens=4"});
  };
  const CommandResult served = generate("Once upon a time");
  EXPECT_EQ(served.exit_code, 0) << served.output;
  const CommandResult beyond = generate("Once <|more|>");
  EXPECT_NE(beyond.exit_code, 0);
  EXPECT_THAT(beyond.output, HasSubstr("is 4096; it must be below the vocabulary size, 4096"));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  for (const char* role : {"target", "draft"}) {
    EXPECT_THAT(server.Output(), HasSubstr(absl::StrCat("the tokenizer has 4097 ids, and the ",
                                                        role, "'s model has 4096")));
  }
  std::filesystem::remove_all(target);
  std::filesystem::remove_all(draft);
}

// From a model to its n-grams, and with all drafters that need no model the target's own text.
TEST(NgramsTest, DerivedServedAndExact) {
  ScratchFolder folder;
  const std::string file = folder.path() + "/demo.ngrams";
  const CommandResult derived =
      RunCommand("tandem", {"derive-ngrams", absl::StrCat("--model=", DemoDraft()),
                            "--successors=2", "--continuation=2", absl::StrCat("--out=", file)});
  ASSERT_EQ(derived.exit_code, 0) << derived.output;
  EXPECT_THAT(derived.output, HasSubstr("derived 4096 of 4096 tokens"));
  Process server("tandem",
                 {"serve", "--listen=127.0.0.1:0", absl::StrCat("--target-model=", DemoTarget()),
                  absl::StrCat("--ngrams=", file), "--recall-tokens=10000",
                  absl::StrCat("--ngram-corpus=", SourcePath("docs/ARCHITECTURE.md"))},
                 "port-file");
  const std::string address = absl::StrCat("--orchestrator=127.0.0.1:", server.WaitForPort());
  const auto generate = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"generate", address, "--prompt=The service has a port",
                                 "--max-tokens=40", "--cache-scope=one", "--format=json"});
    const CommandResult result = RunCommand("tandem", flags);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    const std::vector<std::string> lines = absl::StrSplit(result.output, '\n', absl::SkipEmpty());
    return ParseJson(lines.back());
  };
  for (const std::vector<std::string>& sampling :
       {std::vector<std::string>{"--temperature=0"}, {"--seed=5", "--rule=coupled"}}) {
    std::vector<std::string> flags = sampling;
    flags.push_back("--draft-tokens=0");
    const std::vector<uint32_t> alone = IdsOf(generate(flags)["token_ids"]);
    ASSERT_EQ(alone.size(), 40u);
    for (const char* drafter : {"recall", "corpus-unigram", "corpus-bigram", "derived-unigram",
                                "derived-bigram", "derived-extended", "mixed"}) {
      flags = sampling;
      flags.insert(flags.end(), {"--draft-tokens=4", absl::StrCat("--drafter=", drafter)});
      for (int again = 0; again < 2;
           ++again) {  // recall has an answer to begin with the second time
        const JsonValue reply = generate(flags);
        EXPECT_EQ(IdsOf(reply["token_ids"]), alone) << drafter;
        EXPECT_GT(reply["speculation"]["draft_tokens"].Number(), 0) << drafter;
      }
    }
  }
  // What no drafter could use ends a start before it serves.
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  const CommandResult cut = RunCommand("tandem-draft", {absl::StrCat("--tokenizer=", DemoTarget()),
                                                        absl::StrCat("--ngrams=", file)});
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_THAT(cut.output, AllOf(HasSubstr("--ngrams: "), HasSubstr(file), HasSubstr("was cut")));
}

// A draft of another tokenizer than the one that it is told to serve would propose other texts.
TEST(DraftCommandTest, ItsTokenizerIsThatOfItsModel) {
  ScratchFolder folder;
  std::ifstream file(DemoTarget() + "/tokenizer.json");
  std::string json(std::istreambuf_iterator<char>(file), {});
  const std::string special = "\"special\": true";
  const size_t at = json.find(special);
  ASSERT_NE(at, std::string::npos);
  json.replace(at, special.size(), "\"special\": false");
  std::ofstream(folder.path() + "/tokenizer.json") << json;
  const CommandResult other = RunCommand(
      "tandem-draft", {absl::StrCat("--model=", DemoDraft()),
                       absl::StrCat("--tokenizer=", folder.path()), "--listen=127.0.0.1:0"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.output, HasSubstr("--tokenizer and --model have different tokenizers"));
}

// A draft with half of its output, and a text that is the target's own.
TEST(PrunedDraftTest, MadeServedAndExact) {
  ScratchFolder folder;
  const std::string out = folder.path() + "/pruned";
  const std::vector<std::string> prune = {
      "prune-vocabulary", absl::StrCat("--model=", DemoDraft()), absl::StrCat("--out=", out),
      absl::StrCat("--corpus=", SourcePath("docs/ARCHITECTURE.md"))};
  const auto with = [&prune](const std::string& flag) {
    std::vector<std::string> flags = prune;
    flags.push_back(flag);
    return RunCommand("tandem", flags);
  };
  const CommandResult all = with("--keep=4096");
  EXPECT_EQ(all.exit_code, 1);
  EXPECT_THAT(all.output, HasSubstr("--keep=4096: the model has 4096 tokens; keep fewer"));
  const CommandResult pruned = with("--keep=2048");
  ASSERT_EQ(pruned.exit_code, 0) << pruned.output;
  EXPECT_THAT(pruned.output, HasSubstr("the output has 2048 of 4096 tokens"));
  EXPECT_THAT(with("--keep=2048").output, HasSubstr("already exists"));
  for (const char* program : {"tandem-target", "tandem-model"}) {
    std::vector<std::string> flags = {absl::StrCat("--model=", out), "--listen=127.0.0.1:0"};
    if (program == std::string("tandem-model")) {
      flags = {"serve", absl::StrCat("--target-model=", out), "--listen=127.0.0.1:0"};
    }
    const CommandResult refused = RunCommand(program, flags);
    EXPECT_EQ(refused.exit_code, 1) << program;
    EXPECT_THAT(refused.output, HasSubstr("its output was pruned to 2048 of 4096 tokens"));
  }
  // A draft may leave the tokenizer to its target.
  std::filesystem::remove(out + "/tokenizer.json");
  std::vector<std::string> draft = {absl::StrCat("--model=", out), "--listen=127.0.0.1:0"};
  const CommandResult without = RunCommand("tandem-draft", draft);
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.output, HasSubstr("a model directory must hold a tokenizer.json"));
  draft.push_back(absl::StrCat("--tokenizer=", DemoTarget()));
  Process service("tandem-draft", draft, "port-file");
  EXPECT_GT(service.WaitForPort(), 0);
  Process server("tandem",
                 {"serve", "--listen=127.0.0.1:0", absl::StrCat("--target-model=", DemoTarget()),
                  absl::StrCat("--draft-model=", out)},
                 "port-file");
  const std::string address = absl::StrCat("--orchestrator=127.0.0.1:", server.WaitForPort());
  for (const std::vector<std::string>& sampling :
       {std::vector<std::string>{"--temperature=0"}, {"--seed=5", "--rule=coupled"}}) {
    std::vector<uint32_t> alone;
    for (const char* drafter : {"", "model", "cascade"}) {
      std::vector<std::string> flags = {"generate", address, "--prompt=The service has a port",
                                        "--max-tokens=40", "--format=json"};
      flags.insert(flags.end(), sampling.begin(), sampling.end());
      const bool drafted = *drafter != '\0';
      flags.push_back(drafted ? "--draft-tokens=4" : "--draft-tokens=0");
      if (drafted) flags.push_back(absl::StrCat("--drafter=", drafter));
      const CommandResult result = RunCommand("tandem", flags);
      ASSERT_EQ(result.exit_code, 0) << result.output;
      const std::vector<std::string> lines = absl::StrSplit(result.output, '\n', absl::SkipEmpty());
      const JsonValue reply = ParseJson(lines.back());
      if (!drafted) alone = IdsOf(reply["token_ids"]);
      EXPECT_EQ(IdsOf(reply["token_ids"]), alone) << drafter;
      if (drafted) {
        EXPECT_GT(reply["speculation"]["accepted_tokens"].Number(), 0) << drafter;
      }
    }
  }
}

TEST_F(CommandTest, ServeEndsOnSigterm) {
  server_.Signal(SIGTERM);
  EXPECT_EQ(server_.Wait(), 0);
  EXPECT_THAT(server_.Output(), AllOf(HasSubstr(" ready port="), HasSubstr(" draining grace="),
                                      HasSubstr(" stopped\n")));
  EXPECT_THAT(server_.Output(), Not(::testing::ContainsRegex("\nE[0-9]+ "))) << "gRPC's errors";
}

}  // namespace
}  // namespace tandem::testing
