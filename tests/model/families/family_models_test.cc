// A tiny random model of each family (goldens/make_families.py) against transformers, and against
// itself: what a pass gives may not depend on how it was cut.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/files/safetensors.h"
#include "tests/model/files.h"
#include "tests/model/support.h"
#include "tests/model/trees.h"
#include "tests/support/json.h"

namespace tandem::model::testing {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Decoder> Model(const std::string& variant, Dtype dtype = Dtype::kAuto,
                               int threads = 1, const cpu::Kernels* kernels = nullptr) {
  DecoderOptions options;
  options.threads = threads;
  options.pool_tokens = 8 * 512;
  options.kernels = kernels;
  return MakeDecoder(GoldenDirectory(variant), options, dtype);
}

class FamilyModels : public ::testing::TestWithParam<std::string> {
 protected:
  const std::string directory_ = GoldenDirectory(GetParam());
  const base::JsonValue golden_ = ReadJson(directory_ + "/golden.json");
};

TEST_P(FamilyModels, LogitsAreTransformersInFp32AndInBf16) {
  const auto goldens = SafetensorsFile::Open(directory_ + "/golden.safetensors");
  ASSERT_TRUE(goldens.ok()) << goldens.status();
  const auto exact = Model(GetParam());
  const auto rounded = Model(GetParam(), Dtype::kBfloat16);
  const size_t vocabulary = exact->info().vocabulary_size;
  for (const base::JsonValue& sequence : golden_["sequences"].Elements()) {
    const auto tokens = tandem::testing::IdsOf(sequence["tokens"]);
    const TensorView& view = (*goldens)->tensors().at(sequence["logits"].String().value());
    ASSERT_EQ(view.bytes, tokens.size() * vocabulary * sizeof(float));
    std::vector<float> wanted(tokens.size() * vocabulary);
    std::memcpy(wanted.data(), view.data, view.bytes);
    const auto rows = AllLogits(*exact, tokens, 256);
    const auto rounded_rows = AllLogits(*rounded, tokens, 256);
    for (size_t row = 0; row < tokens.size(); ++row) {
      const absl::Span<const float> want(&wanted[row * vocabulary], vocabulary);
      ASSERT_LT(RelativeDeviation(rows[row], want), 1e-4) << "row " << row;
      ASSERT_LT(RelativeDeviation(rounded_rows[row], want), 2e-2) << "bf16, row " << row;
    }
  }
}

TEST_P(FamilyModels, GreedyIdsAreTransformers) {
  const auto prompt = tandem::testing::IdsOf(golden_["greedy"]["prompt"]);
  const auto wanted = tandem::testing::IdsOf(golden_["greedy"]["ids"]);
  ASSERT_EQ(wanted.size(), 64u);
  EXPECT_EQ(GreedyIds(*Model(GetParam()), prompt, 64), wanted);
}

TEST_P(FamilyModels, RowsHaveTheBitsOfOneByOneDecoding) {
  for (const Dtype dtype : {Dtype::kAuto, Dtype::kBfloat16}) {
    const auto model = Model(GetParam(), dtype);
    std::mt19937 random(1);
    const auto tokens = RandomTokens(random, 60, model->info().vocabulary_size);
    const auto wanted = AllLogits(*model, tokens, 1);
    for (int chunk : {2, 5, 17, 60}) {
      EXPECT_EQ(AllLogits(*model, tokens, chunk), wanted) << "chunks of " << chunk;
    }
    const auto team = Model(GetParam(), dtype, 3);
    EXPECT_EQ(AllLogits(*team, tokens, 1), wanted) << "3 threads";
    EXPECT_EQ(AllLogits(*team, tokens, 19), wanted) << "3 threads";
    for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
      EXPECT_EQ(AllLogits(*Model(GetParam(), dtype, 1, kernels), tokens, 9), wanted)
          << kernels->name;
    }
  }
}

TEST_P(FamilyModels, TreesHaveTheBitsOfTheirChains) {
  const auto plain = Model(GetParam());
  const auto team = Model(GetParam(), Dtype::kAuto, 2);
  std::mt19937 random(2);
  const uint32_t vocabulary = plain->info().vocabulary_size;
  for (int held_tokens : {0, 3, 20}) {
    const std::vector<int> parents = RandomTree(random, 16);
    const auto held = RandomTokens(random, held_tokens, vocabulary);
    const auto tokens = RandomTokens(random, 16, vocabulary);
    auto cache = *team->NewCache(64);
    if (!held.empty()) {
      ASSERT_TRUE(team->Forward({{cache.get(), held, 0}}).ok());
    }
    const auto logits = team->Forward({{cache.get(), tokens, 0, parents}});
    ASSERT_TRUE(logits.ok()) << logits.status();
    for (int row = 0; row < logits->rows; ++row) {
      const auto wanted = AllLogits(*plain, PathTokens(held, tokens, parents, row), 64).back();
      ASSERT_TRUE(SameBits(logits->row(row), wanted)) << "row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, FamilyModels, ::testing::ValuesIn(FamilyVariants()));

// A reader that ignored one of these fields would give the same logits, and miss transformers'.
TEST(FamilyFields, EachShowsInTheLogits) {
  struct Case {
    const char* variant;
    const char* pointer;  // into config.json
    nlohmann::json value;
  };
  const Case cases[] = {
      {"mistral", "/sliding_window", nullptr},
      {"qwen2_window", "/use_sliding_window", false},
      {"qwen2_window", "/rope_parameters/rope_type", "default"},
      {"qwen2_window", "/rope_parameters/beta_fast", 32.0},
      {"qwen2_window", "/rope_parameters/attention_factor", 1.0},
      {"smollm3", "/no_rope_layers", {1, 1, 1}},
      {"smollm3", "/rope_parameters/factor", 1.0},
      {"gemma3", "/sliding_window", 100},
      {"gemma3", "/query_pre_attn_scalar", 16},
      {"gemma3", "/rope_parameters/full_attention/factor", 1.0},
      {"gemma3", "/rope_parameters/sliding_attention/rope_theta", 1e6},
      {"phi3", "/rope_parameters/attention_factor", 1.0},
      {"phi3", "/max_position_embeddings", 16},
      {"granite", "/embedding_multiplier", 1.0},
      {"granite", "/attention_multiplier", 1.0},
      {"granite", "/residual_multiplier", 1.0},
      {"granite", "/logits_scaling", 1.0},
      {"gpt2", "/activation_function", "relu"},
      {"gpt2", "/scale_attn_weights", false},
      {"opt", "/activation_function", "gelu"},
      {"gpt_neox", "/use_parallel_residual", false},
      {"gpt_neox", "/rope_parameters/partial_rotary_factor", 0.5},
  };
  std::mt19937 random(4);
  const auto tokens = RandomTokens(random, 16, 64);
  for (const Case& c : cases) {
    TemporaryDirectory directory;
    directory.CopyModel(c.variant);
    const auto as_it_is = *Load({.directory = directory.path()});
    directory.EditJson("config.json", [&](nlohmann::json& json) {
      json[nlohmann::json::json_pointer(c.pointer)] = c.value;
    });
    const auto changed = Load({.directory = directory.path()});
    ASSERT_TRUE(changed.ok()) << changed.status();
    EXPECT_GT(RelativeDeviation(AllLogits(**changed, tokens, 16).back(),
                                AllLogits(*as_it_is, tokens, 16).back()),
              2e-4)
        << c.variant << c.pointer;
  }
}

// Positions beyond a page, with windows that begin in one page and end in the next.
TEST(FamilyWindows, CrossPages) {
  TemporaryDirectory directory;
  directory.CopyModel("mistral");
  directory.EditJson("config.json", [](auto& json) {
    json["sliding_window"] = 37;
    json["max_position_embeddings"] = 512;
  });
  const auto model = *Load({.directory = directory.path()});
  std::mt19937 random(3);
  const auto tokens = RandomTokens(random, 300, model->info().vocabulary_size);
  const auto wanted = AllLogits(*model, tokens, 1);
  EXPECT_EQ(AllLogits(*model, tokens, 60), wanted);
  // Two layers: what is more than two windows back does not show.
  auto others = tokens;
  for (size_t i = 0; i + 2 * 37 < others.size(); ++i) others[i] = (others[i] + 1) % 64;
  EXPECT_EQ(AllLogits(*model, others, 60).back(), wanted.back());
  others[others.size() - 37] = (others[others.size() - 37] + 1) % 64;
  EXPECT_NE(AllLogits(*model, others, 60).back(), wanted.back());
}

// Names that checkpoints have in place of the family's: a wrapper's, and those of a bare body.
class Prefixes : public ::testing::Test {
 protected:
  void Rename(const std::function<std::string(const std::string&)>& name_of) {
    directory_.EditHeader([&](nlohmann::json& header) {
      nlohmann::json renamed;
      for (const auto& [name, tensor] : header.items()) {
        renamed[name == "__metadata__" ? name : name_of(name)] = tensor;
      }
      header = renamed;
    });
  }

  std::vector<std::vector<float>> LogitsNow() {
    const auto model = Load({.directory = directory_.path()});
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    const std::vector<uint32_t> tokens = {5, 6, 7, 8, 9, 10, 11, 12};
    return AllLogits(**model, tokens, 8);
  }

  TemporaryDirectory directory_;
};

TEST_F(Prefixes, AWrapperWithImagesGivesItsText) {
  directory_.CopyModel("gemma3");
  const auto wanted = LogitsNow();
  directory_.EditJson("config.json", [](nlohmann::json& json) {
    nlohmann::json text = json;
    text.erase("eos_token_id");
    json = {{"model_type", "gemma3"},
            {"architectures", {"Gemma3ForConditionalGeneration"}},
            {"eos_token_id", {2, 3}},
            {"text_config", text},
            {"vision_config", {{"hidden_size", 5}, {"num_hidden_layers", 7}}}};
  });
  Rename([](const std::string& name) { return "language_model." + name; });
  EXPECT_EQ(LogitsNow(), wanted);
  Rename([](const std::string& name) {
    return "model." + std::string("language_model.") + name.substr(sizeof("language_model.model"));
  });
  EXPECT_EQ(LogitsNow(), wanted) << "as transformers 5 calls them";
  const nlohmann::json nothing = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
  directory_.EditHeader(
      [&](nlohmann::json& header) { header["model.vision_tower.layer.weight"] = nothing; });
  EXPECT_EQ(LogitsNow(), wanted) << "text does not need the tower";
  directory_.EditHeader([&](nlohmann::json& header) { header["extra.weight"] = nothing; });
  EXPECT_THAT(std::string(Load({.directory = directory_.path()}).status().message()),
              HasSubstr("1 unexpected: extra.weight [0]"));
  directory_.EditJson("config.json",
                      [](nlohmann::json& json) { json["text_config"]["hidden_size"] = 0; });
  EXPECT_THAT(std::string(ReadConfig(directory_.path()).status().message()),
              HasSubstr("text_config.hidden_size is 0: must be a whole number"));
}

TEST_F(Prefixes, ABareBodyIsItsModel) {
  for (const std::string variant : {"qwen3", "gpt2", "opt"}) {
    directory_.CopyModel(variant);
    const auto wanted = LogitsNow();
    Rename([](const std::string& name) { return name.substr(name.find('.') + 1); });
    EXPECT_EQ(LogitsNow(), wanted) << variant;
  }
}

// A longrope's list is chosen once, by the longest sequence.
TEST(FamilyRopes, ALongRopeTakesTheShortListWhereNoSequenceIsLonger) {
  TemporaryDirectory directory;
  directory.CopyModel("phi3");
  EXPECT_EQ(ReadConfig(directory.path())->spec.rope.divisors.back(), 8.0);
  directory.EditJson("config.json",
                     [](nlohmann::json& json) { json["max_position_embeddings"] = 16; });
  const auto config = ReadConfig(directory.path());
  EXPECT_EQ(config->spec.rope.divisors.back(), 1.5);
  EXPECT_EQ(config->spec.rope.attention_factor, 1.0);
  directory.EditJson("config.json", [](nlohmann::json& json) {
    json["rope_parameters"]["long_factor"] = {1.0, 2.0};
  });
  EXPECT_THAT(std::string(ReadConfig(directory.path()).status().message()),
              HasSubstr("rope_parameters.long_factor is [1.0,2.0]: must have 6 numbers"));
}

}  // namespace
}  // namespace tandem::model::testing
