// --check-flags of the three services: what it takes, and what it refuses by name.
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"

namespace tandem::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

struct Binary {
  const char* name;
  Flags needed;
};

// None of these is there: no file is looked at.
const std::vector<Binary>& Binaries() {
  static const auto& binaries = *new std::vector<Binary>{
      {"tandem-draft", {"--model=/no/such"}},
      {"tandem-target", {"--model=/no/such"}},
      {"tandem-orchestrator", {"--target=nobody.invalid:50052", "--tokenizer=/no/such"}}};
  return binaries;
}
const Binary& Draft() { return Binaries()[0]; }
const Binary& Target() { return Binaries()[1]; }
const Binary& Orchestrator() { return Binaries()[2]; }

CommandResult Check(const Binary& binary, const Flags& more) {
  Flags flags = binary.needed;
  flags.push_back("--check-flags");
  flags.insert(flags.end(), more.begin(), more.end());
  return RunCommand(binary.name, flags);
}

void ExpectTaken(const Binary& binary, const Flags& more) {
  const CommandResult result = Check(binary, more);
  EXPECT_EQ(result.exit_code, 0) << binary.name << " " << absl::StrJoin(more, " ");
  EXPECT_EQ(result.output, "flags OK\n");
}

// Refused, and all of `words` are in what it says.
void ExpectRefused(const Binary& binary, const Flags& more, const Flags& words) {
  const CommandResult result = Check(binary, more);
  EXPECT_EQ(result.exit_code, 1) << binary.name << " " << absl::StrJoin(more, " ");
  for (const std::string& word : words) EXPECT_THAT(result.output, HasSubstr(word));
}

// What --help tells of a flag. The default of a flag that has none is empty text.
struct FlagOfHelp {
  std::string name;
  std::string value;     // by default
  std::string min, max;  // empty: no range
};

std::vector<FlagOfHelp> FlagsOfHelp(const Binary& binary) {
  const CommandResult help = RunCommand(binary.name, {"--help"});
  EXPECT_EQ(help.exit_code, 0) << binary.name;
  // "  --name   what it means (0 to 9; default 1)", over several lines. Or "at least 1; default 2".
  const std::regex start("  --([a-z][a-z-]*)  .*");
  std::vector<std::pair<std::string, std::string>> entries;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(help.output, '\n'))) {
    std::smatch match;
    if (std::regex_match(line, match, start)) entries.emplace_back(match[1], "");
    if (entries.empty()) continue;
    absl::StrAppend(&entries.back().second, " ", absl::StripAsciiWhitespace(line));
  }
  const std::regex facts(".*\\((?:(\\S+) to (\\S+); |at least \\S+; )?default ([^;)]*)\\).*");
  std::vector<FlagOfHelp> flags;
  for (const auto& [name, text] : entries) {
    std::smatch match;
    if (std::regex_match(text, match, facts)) {
      flags.push_back({name, match[3], match[1], match[2]});
    } else {
      flags.push_back({name, "", "", ""});
    }
  }
  return flags;
}

std::vector<std::string> Names(const std::vector<FlagOfHelp>& flags) {
  std::vector<std::string> names;
  for (const FlagOfHelp& flag : flags) names.push_back(flag.name);
  return names;
}

TEST(CheckFlagsTest, EveryFlagOfTheHelpTakesItsOwnDefault) {
  for (const Binary& binary : Binaries()) {
    const std::vector<FlagOfHelp> flags = FlagsOfHelp(binary);
    EXPECT_THAT(Names(flags), AllOf(Contains("listen"), Contains("grace"), Contains("check-flags"),
                                    Contains("tls-client-ca")))
        << binary.name;
    EXPECT_GE(flags.size(), 18u) << binary.name;
    Flags all;
    std::string file;
    for (const FlagOfHelp& flag : flags) {
      if (flag.name == "check-flags" || flag.name == "version" || flag.name == "flagfile") continue;
      // These are given already, and have no default that would do.
      if (absl::StrContains(absl::StrJoin(binary.needed, " "), absl::StrCat("--", flag.name, "=")))
        continue;
      const bool is_switch =
          flag.name == "check-device" || flag.name == "mma-attention" || flag.name == "offload";
      all.push_back(absl::StrCat("--", flag.name, "=", is_switch ? "false" : flag.value));
      absl::StrAppend(&file, all.back(), "\n");
    }
    ExpectTaken(binary, all);
    const ScratchFolder folder;
    WriteFile(folder.path() + "/flags", "# a comment\n\n" + file);
    ExpectTaken(binary, {"--flagfile=" + folder.path() + "/flags"});
  }
}

// A flag's range is the one of what it sets.
TEST(CheckFlagsTest, EveryFlagTakesBothEndsOfItsRange) {
  for (const Binary& binary : Binaries()) {
    Flags least, most;
    for (const FlagOfHelp& flag : FlagsOfHelp(binary)) {
      if (flag.min.empty()) continue;
      least.push_back(absl::StrCat("--", flag.name, "=", flag.min));
      most.push_back(absl::StrCat("--", flag.name, "=", flag.max));
    }
    EXPECT_GE(least.size(), 4u) << binary.name;
    ExpectTaken(binary, least);
    ExpectTaken(binary, most);
  }
}

TEST(CheckFlagsTest, WhatEveryServiceRefuses) {
  for (const Binary& binary : Binaries()) {
    ExpectRefused(binary, {"--no-such-flag=1"}, {"unknown flag --no-such-flag"});
    ExpectRefused(binary, {"--admin-listne=a:1"},
                  {"--admin-listne", "did you mean --admin-listen?"});
    ExpectRefused(binary, {"word"}, {"'word' is not a flag"});
    ExpectRefused(binary, {"--listen=50051"}, {"--listen: '50051' has no port"});
    ExpectRefused(binary, {"--admin-listen=[::1:9"}, {"--admin-listen: '[::1:9'"});
    ExpectRefused(binary, {"--grace=30"}, {"--grace=30: must be a time", "200ms, 90s, 2m30s"});
    ExpectRefused(binary, {"--grace=2h"}, {"--grace=2h: ", "0 to 1h"});
    ExpectRefused(binary, {"--grace=-1s"}, {"--grace=-1s: "});
    ExpectRefused(binary, {"--tls-certificate=c"}, {"--tls-certificate needs --tls-key"});
    ExpectRefused(binary, {"--tls-key=k"}, {"--tls-key needs --tls-certificate"});
    ExpectRefused(binary, {"--tls-client-ca=k"}, {"--tls-client-ca needs --tls-certificate"});
    ExpectRefused(binary, {"--flagfile=/no/such"}, {"/no/such"});
    const ScratchFolder folder;
    WriteFile(folder.path() + "/flags", "--grace=3s\n--no-such-flag=1\n");
    ExpectRefused(binary, {"--flagfile=" + folder.path() + "/flags"},
                  {folder.path() + "/flags:2: ", "--no-such-flag"});
  }
}

TEST(CheckFlagsTest, WhatOneServiceRefuses) {
  ExpectRefused(Target(), {"--model="}, {"--model=MODEL is required"});
  ExpectRefused(Target(), {"--dtype=int3"},
                {"--dtype=int3: must be one of auto, fp32, float32, bf16"});
  ExpectRefused(Target(), {"--generation-config=mine"},
                {"--generation-config=mine: must be one of model, none"});
  ExpectRefused(Target(), {"--measure=2m"}, {"--measure=2m: ", "0 to 1m"});
  ExpectRefused(Target(), {"--linger=-1s"}, {"--linger=-1s: ", "0 to 1h"});
  ExpectRefused(Draft(), {"--model="}, {"--model=MODEL or --tokenizer=MODEL is required"});
  ExpectTaken(Draft(), {"--tokenizer=t"});
  ExpectRefused(Draft(), {"--proposal=wild"}, {"--proposal=wild: must be one of sampled, greedy"});
  ExpectRefused(Draft(), {"--drafter=best"},
                {"--drafter=best: must be one of model, cascade, lookup-first, prompt-lookup"});
  ExpectRefused(Draft(), {"--model=", "--tokenizer=t", "--drafter=model"},
                {"--drafter=model: must be one of prompt-lookup"});
  ExpectRefused(Draft(), {"--drafter=random"},
                {"--drafter=random: must be one of model, cascade, lookup-first, prompt-lookup"});
  ExpectTaken(Draft(), {"--drafter=lookup-first"});
  ExpectTaken(Draft(), {"--model=", "--tokenizer=t", "--drafter=prompt-lookup"});
  ExpectRefused(
      Draft(), {"--drafter=corpus-bigram"},
      {"--drafter=corpus-bigram: must be one of model, cascade, lookup-first, prompt-lookup"});
  ExpectTaken(Draft(), {"--ngram-corpus=c", "--drafter=corpus-bigram"});
  ExpectRefused(Orchestrator(), {"--target="}, {"--target=HOST:PORT[,HOST:PORT...] is required"});
  ExpectRefused(Orchestrator(), {"--target=a:1,a:1"}, {"--target: 'a:1' is in the list twice"});
  ExpectRefused(Orchestrator(), {"--draft=b"}, {"--draft: 'b' has no port"});
  ExpectRefused(Orchestrator(), {"--tokenizer="}, {"--tokenizer=MODEL is required"});
  ExpectRefused(Orchestrator(), {"--drain-delay=11m"}, {"--drain-delay=11m: ", "0 to 10m"});
  ExpectRefused(Orchestrator(), {"--resolve-every=1ms"}, {"--resolve-every=1ms: ", "100ms to 1h"});
  ExpectRefused(Orchestrator(), {"--peer-tls-key=k"},
                {"--peer-tls-key needs --peer-tls-certificate"});
  ExpectRefused(Orchestrator(), {"--client-id=" + std::string(97, 'x')},
                {"--client-id has 97 bytes"});
  ExpectRefused(Orchestrator(), {"--draft-wait=0s"}, {"--draft-wait=0s: ", "1ms to 1m"});
}

// The same words without --check-flags.
TEST(CheckFlagsTest, AStartRefusesTheSame) {
  for (const Binary& binary : Binaries()) {
    for (const char* bad : {"--grace=2h", "--tls-key=k", "--listen=x", "--no-such-flag=1"}) {
      Flags flags = binary.needed;
      flags.push_back(bad);
      EXPECT_EQ(RunCommand(binary.name, flags).output, Check(binary, {bad}).output) << bad;
      EXPECT_EQ(RunCommand(binary.name, flags).exit_code, 1) << bad;
    }
  }
}

}  // namespace
}  // namespace tandem::testing
