#include "model/spec/decoder_spec.h"

#include <functional>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "model/config.h"
#include "tests/model/support.h"

namespace tandem::model::testing {
namespace {

// These texts are in the ids of models, which services of two versions compare.
TEST(DecoderSpec, CanonicalTextsStayAsTheyAre) {
  EXPECT_EQ(ReadConfig(GoldenDirectory("llama3"))->Canonical(),
            "llama vocabulary=64 context=512 hidden=32 ffn=44 layers=2 heads=2 kv=1 head=16 "
            "epsilon=1e-05 tied=0 attention_bias=0 mlp_bias=0 theta=500000 llama3=8/1/4/64");
  EXPECT_EQ(ReadConfig(GoldenDirectory("biases"))->Canonical(),
            "llama vocabulary=97 context=128 hidden=32 ffn=44 layers=2 heads=4 kv=4 head=8 "
            "epsilon=1e-05 tied=1 attention_bias=1 mlp_bias=1 theta=10000");
}

TEST(DecoderSpec, EveryValueShowsInTheCanonicalText) {
  const std::function<void(DecoderSpec&)> changes[] = {
      [](DecoderSpec&) {},
      [](DecoderSpec& s) { s.vocabulary_size = 1; },
      [](DecoderSpec& s) { s.context_length = 1; },
      [](DecoderSpec& s) { s.layers = 1; },
      [](DecoderSpec& s) { s.hidden_size = 1; },
      [](DecoderSpec& s) { s.intermediate_size = 1; },
      [](DecoderSpec& s) { s.heads = 1; },
      [](DecoderSpec& s) { s.kv_heads = 1; },
      [](DecoderSpec& s) { s.head_size = 1; },
      [](DecoderSpec& s) { s.norm.kind = NormSpec::Kind::kLayer; },
      [](DecoderSpec& s) { s.norm.epsilon = 1e-5; },
      [](DecoderSpec& s) { s.qk_norm = true; },
      [](DecoderSpec& s) { s.qkv_bias = true; },
      [](DecoderSpec& s) { s.o_bias = true; },
      [](DecoderSpec& s) { s.qkv_bias = s.o_bias = true; },
      [](DecoderSpec& s) { s.mlp_bias = true; },
      [](DecoderSpec& s) { s.rope.theta = 5e5; },
      [](DecoderSpec& s) { s.rope.partial_rotary_factor = 0.5; },
      [](DecoderSpec& s) { s.rope.scaling = RopeSpec::Scaling::kLlama3; },
      [](DecoderSpec& s) {
        s.rope.scaling = RopeSpec::Scaling::kLlama3;
        s.rope.factor = 8;
      },
      [](DecoderSpec& s) {
        s.rope.scaling = RopeSpec::Scaling::kLlama3;
        s.rope.low_freq_factor = 2;
      },
      [](DecoderSpec& s) {
        s.rope.scaling = RopeSpec::Scaling::kLlama3;
        s.rope.high_freq_factor = 8;
      },
      [](DecoderSpec& s) {
        s.rope.scaling = RopeSpec::Scaling::kLlama3;
        s.rope.original_context = 8192;
      },
      [](DecoderSpec& s) { s.activation = Activation::kGelu; },
      [](DecoderSpec& s) { s.activation = Activation::kGeluTanh; },
      [](DecoderSpec& s) { s.sliding_window = 4096; },
      [](DecoderSpec& s) { s.tied_embeddings = true; },
  };
  std::set<std::string> texts;
  for (const auto& change : changes) {
    DecoderSpec spec;
    change(spec);
    EXPECT_TRUE(texts.insert(spec.Canonical()).second) << spec.Canonical();
  }
}

}  // namespace
}  // namespace tandem::model::testing
