// `tandem` and its services as processes: help, and a standard output that takes nothing.
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"

namespace tandem::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Result {
  int code = -1;  // -1: a signal ended it
  std::string out;
  std::string err;
};

std::string Read(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// `arguments`: without characters that mean something to a shell. `out`: empty for a file.
Result Execute(const std::string& binary, const std::string& arguments, std::string out = "") {
  const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string stem = absl::StrCat(::testing::TempDir(), "command_line_", name);
  const bool to_file = out.empty();
  if (to_file) out = stem + "_out";
  const std::string command = absl::StrCat(tandem::testing::BinaryPath(binary), " ", arguments,
                                           " >", out, " 2>", stem, "_err </dev/null");
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, to_file ? Read(out) : "",
          Read(stem + "_err")};
}

TEST(CommandLine, HelpOfHelpIsHelp) {
  const Result help = Execute("tandem", "help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, StartsWith("Tandem: speculative decoding"));
  for (const char* words : {"help help", "help --help", "help -h", "--help --help", "-h -h",
                            "--help help", "-h --help"}) {
    const Result result = Execute("tandem", words);
    EXPECT_EQ(result.code, 0) << words;
    EXPECT_EQ(result.out, help.out) << words;
  }
  EXPECT_EQ(Execute("tandem", "help theory").out, Execute("tandem", "theory --help").out);
  EXPECT_EQ(Execute("tandem", "help sing").code, 2);
}

TEST(CommandLine, EveryProgramHasBothHelps) {
  for (const char* binary : {"tandem-draft", "tandem-target", "tandem-orchestrator"}) {
    const Result result = Execute(binary, "--help");
    EXPECT_EQ(result.code, 0) << binary;
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat("Usage: ", binary)));
    EXPECT_THAT(result.err, IsEmpty());
    const Result brief = Execute(binary, "-h");
    EXPECT_EQ(brief.code, 0) << binary;
    EXPECT_EQ(brief.out, result.out);
  }
}

TEST(CommandLine, EveryCommandNamesWhatIsWrongWithItsArguments) {
  for (const char* command : {"generate", "chat", "describe", "pull", "tokenize", "bench", "theory",
                              "completion", "serve"}) {
    const Result result = Execute("tandem", absl::StrCat(command, " --nonsense"));
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_THAT(result.out, IsEmpty()) << command;
    EXPECT_THAT(result.err, AllOf(StartsWith("error: "), HasSubstr("nonsense"))) << command;
  }
  // What is known to be wrong only after all flags were read.
  for (const auto& [arguments, says] : std::initializer_list<std::pair<const char*, const char*>>{
           {"generate --record=/nowhere/record x", "/nowhere/record: No such file or directory"},
           {"generate --record=/dev/full --force x", "/dev/full: it is not a regular file"},
           {"generate --record=/etc/passwd x", "/etc/passwd already exists"},
           {"generate --samples=17 x", "samples"},
           {"chat --orchestrator=nowhere", "orchestrator"},
           {"describe --orchestrator=nowhere", "orchestrator"},
           {"pull nonsense", "OWNER/NAME"},
           {"tokenize --prompt-file=/nowhere/text", "/nowhere/text"},
           {"bench --prompts-file=/nowhere/prompts", "/nowhere/prompts"},
           {"completion tcsh", "'tcsh' is none of bash, zsh, fish"}}) {
    const Result result = Execute("tandem", arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_THAT(result.out, IsEmpty()) << arguments;
    EXPECT_THAT(result.err, HasSubstr(says)) << arguments;
  }
}

TEST(CommandLine, WhatIsNearestToAWrongNameIsOffered) {
  for (const auto& [arguments, nearest] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"sevre", "serve"},
           {"Generate", "generate"},
           {"help bensh", "bench"},
           {"prune", "prune-vocabulary"},
           {"completion fisch", "fish"},
           {"generate --rule=speculativ x", "speculative"},
           {"generate --format=JSON x", "json"},
           {"serve --target-model=m --dtype=bf61", "bf16"},
           {"serve --target-model=m --drafter=lookup", "prompt-lookup"},
           {"serve --target-model=m --drafter=prompt-lookup,context-ngam", "context-ngram"},
           {"serve --pool-token=5", "--pool-tokens"}}) {
    const Result result = Execute("tandem", arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("did you mean ", nearest, "?"))) << arguments;
  }
}

TEST(CommandLine, ServeReadsFlagFilesAndChecksItsFlagsAsTheServicesDo) {
  const std::string file = absl::StrCat(::testing::TempDir(), "serve_flags");
  std::ofstream(file) << "# what is served\n--target-model=/no/such\n--pool-tokens=4096\n"
                         "--draft-pool-tokens=4096\n--gpu-memory-utilization=0.5\n";
  const Result good =
      Execute("tandem", absl::StrCat("serve --flagfile=", file, " --pool-tokens=1 --check-flags"));
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(good.out, "flags OK\n");
  // Those of requests, too, which tandem-orchestrator has.
  EXPECT_EQ(Execute("tandem", absl::StrCat("serve --flagfile=", file,
                                           " --slot-patience=5s --reader-patience=1m "
                                           "--max-unread-bytes=1048576 --draft-wait=20ms "
                                           "--watchdog-min=2s --check-flags"))
                .out,
            "flags OK\n");
  const Result name =
      Execute("tandem", absl::StrCat("serve --flagfile=", file, " --check-flags ",
                                     "--served-model-name=", std::string(300, 'x')));
  EXPECT_EQ(name.code, 2);
  EXPECT_THAT(name.err, HasSubstr("--served-model-name has 300 bytes; at most 256"));
  std::ofstream(file, std::ios::app) << "--pool-tokens=many\n";
  const Result wrong = Execute("tandem", absl::StrCat("serve --flagfile=", file));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, AllOf(StartsWith("error: "), HasSubstr("serve_flags:6: --pool-tokens")));
  EXPECT_THAT(Execute("tandem", "serve --version").out, StartsWith("tandem serve "));
}

// /dev/full takes nothing.
TEST(CommandLine, WhatCannotBeWrittenIsAnError) {
  struct {
    const char* binary;
    const char* arguments;
  } const cases[] = {{"tandem", "help"},
                     {"tandem", "version"},
                     {"tandem", "theory"},
                     {"tandem", "theory --json"},
                     {"tandem", "generate --help"},
                     {"tandem", "bench --help"},
                     {"tandem-model", "help"},
                     {"tandem-model", "version"},
                     {"tandem-model", "serve --help"},
                     {"tandem-draft", "--help"},
                     {"tandem-target", "--version"},
                     {"tandem-orchestrator", "--check-flags --target=a:1 --tokenizer=t"}};
  for (const auto& test : cases) {
    const Result result = Execute(test.binary, test.arguments, "/dev/full");
    EXPECT_EQ(result.code, 1) << test.binary << " " << test.arguments;
    EXPECT_THAT(result.err, HasSubstr("standard output cannot be written: No space left on device"))
        << test.binary << " " << test.arguments;
  }
}

}  // namespace
}  // namespace tandem::client
