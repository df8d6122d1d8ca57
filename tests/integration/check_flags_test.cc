// --check_flags of the three services: what it takes, and what it refuses by name.
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
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
using ::testing::Key;
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
  flags.push_back("--check_flags");
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

// What --help tells of flags: names and their defaults.
std::vector<std::pair<std::string, std::string>> FlagsOfHelp(const Binary& binary) {
  const std::vector<std::string> words = absl::StrSplit(RunCommand(binary.name, {"--help"}).output,
                                                        absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const std::string help = absl::StrJoin(words, " ");
  const std::regex flag("--(\\w+) \\((.*?)\\); default: (.*?);");
  std::vector<std::pair<std::string, std::string>> flags;
  for (std::sregex_iterator it(help.begin(), help.end(), flag), end; it != end; ++it) {
    flags.emplace_back((*it)[1], absl::StrReplaceAll((*it)[3].str(), {{"\"", ""}}));
  }
  return flags;
}

TEST(CheckFlagsTest, EveryFlagOfTheHelpTakesItsOwnDefault) {
  for (const Binary& binary : Binaries()) {
    const auto flags = FlagsOfHelp(binary);
    EXPECT_THAT(flags, AllOf(Contains(Key("listen")), Contains(Key("grace")),
                             Contains(Key("check_flags")), Contains(Key("tls_client_ca"))))
        << binary.name;
    EXPECT_GE(flags.size(), 18u) << binary.name;
    Flags all;
    std::string file;
    for (const auto& [name, value] : flags) {
      if (name == "check_flags") continue;
      // These are given already, and have no default that would do.
      if (absl::StrContains(absl::StrJoin(binary.needed, " "), absl::StrCat("--", name, "=")))
        continue;
      all.push_back(absl::StrCat("--", name, "=", value));
      absl::StrAppend(&file, all.back(), "\n");
    }
    ExpectTaken(binary, all);
    const ScratchFolder folder;
    WriteFile(folder.path() + "/flags", "# a comment\n\n" + file);
    ExpectTaken(binary, {"--flagfile=" + folder.path() + "/flags"});
  }
}

TEST(CheckFlagsTest, WhatEveryServiceRefuses) {
  for (const Binary& binary : Binaries()) {
    ExpectRefused(binary, {"--no_such_flag=1"}, {"no_such_flag"});
    ExpectRefused(binary, {"word"}, {"\"word\" is no flag"});
    ExpectRefused(binary, {"--listen=50051"}, {"listen: '50051' has no port"});
    ExpectRefused(binary, {"--admin_listen=[::1:9"}, {"admin-listen: '[::1:9'"});
    ExpectRefused(binary, {"--grace=30"}, {"'30'", "'grace'", "200ms, 1.5s or 10m"});
    ExpectRefused(binary, {"--grace=2h"}, {"grace is 2h; it must be 0 to 1h"});
    ExpectRefused(binary, {"--grace=-1s"}, {"grace is -1s"});
    ExpectRefused(binary, {"--tls_certificate=c"}, {"TLS certificate"});
    ExpectRefused(binary, {"--tls_key=k"}, {"TLS key needs its certificate"});
    ExpectRefused(binary, {"--tls_client_ca=k"}, {"TLS"});
    ExpectRefused(binary, {"--flagfile=/no/such"}, {"/no/such"});
    const ScratchFolder folder;
    WriteFile(folder.path() + "/flags", "--grace=3s\n--no_such_flag=1\n");
    ExpectRefused(binary, {"--flagfile=" + folder.path() + "/flags"}, {"no_such_flag"});
  }
}

// Also what Abseil calls an "Illegal value" and nothing else.
TEST(CheckFlagsTest, NumbersNameTheirRange) {
  const auto refused = [](const Binary& binary, const std::string& flag, const Flags& values,
                          const std::string& range) {
    for (const std::string& value : values) {
      ExpectRefused(binary, {absl::StrCat("--", flag, "=", value)},
                    {absl::StrCat("'", value, "'"), absl::StrCat("'", flag, "'"),
                     absl::StrCat("a whole number from ", range)});
    }
  };
  refused(Target(), "pass_rows", {"-1", "65537", "many", "1.5", "99999999999999999999"},
          "0 to 65536");
  refused(Target(), "max_sequences", {"-1", "0"}, "1 to 65536");
  refused(Target(), "max_draft_tokens", {"-1", "65"}, "1 to 64");
  refused(Target(), "prefill_rows", {"-1", "0"}, "1 to 65536");
  refused(Target(), "threads", {"-1", "257"}, "1 to 256");
  refused(Target(), "pool_tokens", {"-1", "4294967297"}, "0 to 4294967296");
  refused(Draft(), "max_sequences", {"-1", "0"}, "1 to 65536");
  refused(Draft(), "top_m", {"0", "65"}, "1 to 64");
  refused(Draft(), "step_rows", {"-1", "65537"}, "0 to 65536");
  refused(Draft(), "threads", {"0"}, "1 to 256");
  refused(Orchestrator(), "max_active_requests", {"-1", "0"}, "1 to 65536");
  refused(Orchestrator(), "max_waiting_requests", {"-1", "16385"}, "0 to 16384");
}

TEST(CheckFlagsTest, WhatOneServiceRefuses) {
  ExpectRefused(Target(), {"--model="}, {"--model=DIRECTORY is needed"});
  ExpectRefused(Target(), {"--dtype=int3"}, {"int3"});
  ExpectRefused(Target(), {"--generation_config=mine"}, {"\"mine\"; there are model and none"});
  ExpectRefused(Target(), {"--measure=2m"}, {"measure is 2m"});
  ExpectRefused(Target(), {"--linger=-1s"}, {"linger is -1s"});
  ExpectRefused(Draft(), {"--tokenizer=t"}, {"one of --model=DIRECTORY and --tokenizer=DIRECTORY"});
  ExpectRefused(Draft(), {"--proposal=wild"}, {"wild"});
  ExpectRefused(Draft(), {"--drafter=best"}, {"\"best\" is none of: model, prompt-lookup"});
  ExpectRefused(Draft(), {"--drafter=random"}, {"\"random\" is none of: model, prompt-lookup"});
  ExpectRefused(Draft(), {"--model=", "--tokenizer=t", "--drafter=model"},
                {"\"model\" is none of"});
  ExpectTaken(Draft(), {"--model=", "--tokenizer=t", "--drafter=prompt-lookup"});
  ExpectRefused(Orchestrator(), {"--target="}, {"target"});
  ExpectRefused(Orchestrator(), {"--target=a:1,a:1"}, {"target: 'a:1' is in the list twice"});
  ExpectRefused(Orchestrator(), {"--draft=b"}, {"draft: 'b' has no port"});
  ExpectRefused(Orchestrator(), {"--tokenizer="}, {"tokenizer is empty"});
  ExpectRefused(Orchestrator(), {"--drain_delay=11m"}, {"drain_delay is 11m; it must be 0 to 10m"});
  ExpectRefused(Orchestrator(), {"--resolve_every=1ms"}, {"resolve_every is 1ms"});
  ExpectRefused(Orchestrator(), {"--peer_tls_key=k"}, {"towards peers: "});
  ExpectRefused(Orchestrator(), {"--draft_wait=0s"}, {"draft_wait is 0"});
}

// The same words without --check_flags.
TEST(CheckFlagsTest, AStartRefusesTheSame) {
  for (const Binary& binary : Binaries()) {
    for (const char* bad : {"--grace=2h", "--tls_key=k", "--listen=x", "--no_such_flag=1"}) {
      Flags flags = binary.needed;
      flags.push_back(bad);
      EXPECT_EQ(RunCommand(binary.name, flags).output, Check(binary, {bad}).output) << bad;
      EXPECT_EQ(RunCommand(binary.name, flags).exit_code, 1) << bad;
    }
  }
}

}  // namespace
}  // namespace tandem::testing
