// A target that LibTorch computes, behind the services: the same greedy ids as the decoder of
// model/ writes alone, with and without drafts, and after the target was lost.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TorchServicesTest, GreedyIdsAreThoseOfTheDecoder) {
  ProcessCluster cluster({"--device=torch-cpu", "--threads=1", "--measure=0"});
  cluster.StartOrchestrator();
  EXPECT_THAT(cluster.target().Output(),
              AllOf(HasSubstr("device=torch-cpu"), HasSubstr("numerics_id=torch-2.")));
  auto alone = LoadModel(DemoTarget());
  const auto tokenizer = LoadTokenizer(DemoTarget());
  std::vector<v1::GenerateRequest> requests;
  std::vector<std::vector<uint32_t>> expected;
  for (const std::string& text : {TenPrompts()[0], TenPrompts()[5]}) {
    const std::vector<uint32_t> prompt = *tokenizer->Encode(text);
    for (uint32_t draft_tokens : {0u, 4u}) {
      requests.push_back(GreedyRequest(prompt, 48, draft_tokens, "model"));
      expected.push_back(GreedyAlone(*alone, prompt, 48, tokenizer->vocabulary_size()));
    }
  }
  std::vector<Reply> replies = SendAll(cluster.channel(), requests, 4);
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSERT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_EQ(replies[i].ids, expected[i]) << "request " << i;
  }
  EXPECT_GT(replies[1].record().accepted_tokens(), 0u);

  // A target that is killed in the middle is replayed on the one that takes its place.
  bool killed = false;
  const Reply reply = Send(cluster.channel(), requests[1], [&](const Reply& so_far) {
    if (killed || so_far.ids.size() < 10) return;
    killed = true;
    cluster.RestartTarget();
  });
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_TRUE(killed);
  EXPECT_EQ(reply.ids, expected[1]);
}

// Ids of `tandem generate`, greedy.
std::vector<uint32_t> GeneratedIds(const std::string& device) {
  Process server("tandem",
                 {"serve", "--listen=127.0.0.1:0", absl::StrCat("--target-model=", DemoTarget()),
                  absl::StrCat("--draft-model=", DemoDraft()), absl::StrCat("--device=", device),
                  "--threads=1"},
                 "port-file");
  const std::string address = absl::StrCat("--orchestrator=127.0.0.1:", server.WaitForPort());
  const CommandResult result =
      RunCommand("tandem", {"generate", address, "--prompt=Once upon a time", "--temperature=0",
                            "--max-tokens=40", "--format=json"});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  std::vector<uint32_t> ids;
  for (absl::string_view line : absl::StrSplit(result.output, '\n', absl::SkipEmpty())) {
    const base::JsonValue json = ParseJson(line);
    if (json.Has("final")) continue;
    for (uint32_t id : IdsOf(json["token_ids"])) ids.push_back(id);
  }
  return ids;
}

TEST(TorchServicesTest, ServeWritesTheSameOnBothDevices) {
  const std::vector<uint32_t> ids = GeneratedIds("torch-cpu");
  EXPECT_EQ(ids.size(), 40u);
  EXPECT_EQ(ids, GeneratedIds("cpu"));
}

// All three services in one process: there is no other target, so its text ends with the device.
TEST(TorchServicesTest, ServeLosesItsDeviceAndEnds) {
  const std::filesystem::path program = BuildPath("tests/losing_torch/tandem-model");
  std::filesystem::remove(program);
  std::filesystem::create_hard_link(BinaryPath("tandem-model"), program);
  const ScratchFolder folder;
  const std::string lost = folder.path() + "/lost";
  setenv("TANDEM_TEST_LOST", lost.c_str(), /*overwrite=*/1);
  Process server("../tests/losing_torch/tandem-model",
                 {"serve", "--listen=127.0.0.1:0", absl::StrCat("--target-model=", DemoTarget()),
                  absl::StrCat("--draft-model=", DemoDraft()), "--device=torch-cpu", "--threads=1"},
                 "port-file");
  const auto channel = transport::MakeChannel(absl::StrCat("127.0.0.1:", server.WaitForPort()));
  const auto prompt = LoadTokenizer(DemoTarget())->Encode("The old captain looked at the sea");
  const Reply reply =
      Send(channel, GreedyRequest(*prompt, 400, 4, "model"), [&](const Reply& so_far) {
        if (so_far.ids.size() >= 20) WriteFile(lost, "");
      });
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kUnavailable) << reply.status;
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("resume at another one"));
  EXPECT_GE(reply.ids.size(), 20u);
  ASSERT_TRUE(WaitUntil([&] { return !server.Running(); })) << server.Output();
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.Output(), HasSubstr("the device is lost, so this process ends: an illegal "
                                         "memory access was encountered (700)"));
}

TEST(TorchServicesTest, TheDeviceIsCheckedOnItsOwn) {
  const std::string model = absl::StrCat("--model=", DemoTarget());
  const CommandResult checked =
      RunCommand("tandem-target", {model, "--device=torch-cpu", "--threads=1", "--check-device"});
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_THAT(checked.output, AllOf(HasSubstr("parity     passed"), HasSubstr("trees      passed"),
                                    HasSubstr("ms per pass"), HasSubstr("serves as torch-2.")));

  const CommandResult own = RunCommand("tandem-target", {model, "--check-device"});
  EXPECT_EQ(own.exit_code, 1) << own.output;
  EXPECT_THAT(own.output, HasSubstr("--device=torch-cpu or --device=cuda"));
}

// Programs that stand alone, as in the images of the services: one error that says how to get it.
TEST(TorchServicesTest, WithoutTheLibraryOneErrorSaysHowToGetIt) {
  const std::filesystem::path folder = BuildPath("tests/without_library");
  std::filesystem::create_directory(folder);
  for (const auto& [name, model] :
       {std::pair("tandem-target", DemoTarget()), std::pair("tandem-draft", DemoDraft())}) {
    std::filesystem::remove(folder / name);
    std::filesystem::create_hard_link(BinaryPath(name), folder / name);
    for (const char* device : {"torch-cpu", "cuda"}) {
      const CommandResult result =
          RunCommand(absl::StrCat("../tests/without_library/", name),
                     {absl::StrCat("--model=", model), absl::StrCat("--device=", device)});
      EXPECT_EQ(result.exit_code, 1) << result.output;
      EXPECT_THAT(result.output,
                  AllOf(HasSubstr(absl::StrCat(" ", name, ": --device=", device,
                                               ": this device needs libtandem_torch.so, which")),
                        HasSubstr("`scripts/setup`"), HasSubstr("tandem-target-cuda")));
    }
  }
}

// Where there is no card: one error that says what is missing.
TEST(TorchServicesTest, ACardThatIsMissingIsOneClearError) {
  const CommandResult result = RunCommand(
      "tandem-target", {absl::StrCat("--model=", DemoTarget()), "--device=cuda", "--check-device"});
  if (result.exit_code == 0) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("CUDA"), HasSubstr("docs/gpu.md"),
                                   Not(HasSubstr("terminate called"))));
}

}  // namespace
}  // namespace tandem::testing
