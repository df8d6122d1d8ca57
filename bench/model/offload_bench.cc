// A pass of a model that does not fit into memory, by rows, in turn: what of it is read from the file
// in each pass costs the same for five rows as for one. Run it in a control group whose limit is below
// the model's size (the page cache counts there, too), or the files are read once and stay.
// Usage: offload_bench make DIRECTORY [hidden] [layers]     writes a random model in bf16
//        offload_bench run DIRECTORY [threads] [rounds]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/model/arguments.h"
#include "bench/model/random_model.h"
#include "bench/model/timing.h"
#include "model/load.h"

namespace tandem::bench {
namespace {

constexpr int kVocabulary = 4096;
constexpr int kContext = 512;

void Make(const std::string& directory, int hidden, int layers) {
  std::filesystem::create_directories(directory);
  const int64_t inner = 3 * int64_t{hidden};
  std::ofstream(directory + "/config.json") << absl::StrCat(
      R"({"model_type": "llama", "vocab_size": )", kVocabulary, R"(, "hidden_size": )", hidden,
      R"(, "intermediate_size": )", inner, R"(, "num_hidden_layers": )", layers,
      R"(, "num_attention_heads": )", hidden / 64, R"(, "num_key_value_heads": )", hidden / 64,
      R"(, "max_position_embeddings": )", kContext,
      R"(, "rms_norm_eps": 1e-5, "tie_word_embeddings": true})");
  std::vector<std::pair<std::string, std::vector<int64_t>>> tensors = {
      {"model.embed_tokens.weight", {kVocabulary, hidden}}, {"model.norm.weight", {hidden}}};
  for (int i = 0; i < layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      tensors.push_back({layer + norm + ".weight", {hidden}});
    }
    for (const char* name : {"q", "k", "v", "o"}) {
      tensors.push_back(
          {absl::StrCat(layer, "self_attn.", name, "_proj.weight"), {hidden, hidden}});
    }
    tensors.push_back({layer + "mlp.gate_proj.weight", {inner, hidden}});
    tensors.push_back({layer + "mlp.up_proj.weight", {inner, hidden}});
    tensors.push_back({layer + "mlp.down_proj.weight", {hidden, inner}});
  }
  std::vector<std::string> entries;
  int64_t end = 0;
  for (const auto& [name, shape] : tensors) {
    const int64_t begin = end;
    end += 2 * shape[0] * (shape.size() > 1 ? shape[1] : 1);
    entries.push_back(absl::StrCat("\"", name, R"(": {"dtype": "BF16", "shape": [)",
                                   absl::StrJoin(shape, ","), R"(], "data_offsets": [)", begin, ",",
                                   end, "]}"));
  }
  const std::string header = absl::StrCat("{", absl::StrJoin(entries, ","), "}");
  std::ofstream file(directory + "/model.safetensors", std::ios::binary);
  const uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), 8);
  file << header;
  for (const auto& [name, shape] : tensors) {
    RandomTensors random("BF16");
    const model::TensorView* view = random.Make(shape);
    file.write(static_cast<const char*>(view->data), static_cast<std::streamsize>(view->bytes));
  }
  std::printf("%.1f MB of weights in %s\n", static_cast<double>(end) / 1e6, directory.c_str());
}

int Run(const std::string& directory, int threads, int rounds) {
  model::LoadOptions options;
  options.directory = directory;
  options.threads = threads;
  options.max_rows = 16;
  options.pool_tokens = kContext;
  options.offload = true;
  model::LoadReport report;
  options.report = &report;
  auto model = model::Load(options);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", std::string(model.status().message()).c_str());
    return 1;
  }
  std::printf("%s\n", report.Text().c_str());
  auto cache = std::move((*model)->NewCache(kContext)).value();
  const std::vector<uint32_t> tokens(16, 7);
  RowTimes times({1, 5, 8});
  for (int round = -1; round < rounds; ++round) {  // the first warms up
    times.Round(
        round >= 0, [&] { cache->Truncate(0); },
        [&](int rows) {
          if (!(*model)->Forward({{cache.get(), absl::MakeSpan(tokens).first(rows), 0}}).ok()) {
            std::abort();
          }
        });
  }
  times.Print();
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  const auto number = [&](int i, int fallback) {
    return tandem::bench::NumberArgument(argc, argv, i, fallback);
  };
  if (what == "make") {
    tandem::bench::Make(argv[2], number(3, 1024), number(4, 16));
    return 0;
  }
  if (what == "run") return tandem::bench::Run(argv[2], number(3, 2), number(4, 5));
  std::fprintf(stderr,
               "usage: offload_bench make DIRECTORY [hidden] [layers]\n"
               "       offload_bench run DIRECTORY [threads] [rounds]\n");
  return 2;
}
