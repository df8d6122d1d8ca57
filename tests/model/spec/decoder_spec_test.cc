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
      [](DecoderSpec& s) { s.norm.plus_one = true; },
      [](DecoderSpec& s) { s.pre_norm = false; },
      [](DecoderSpec& s) { s.post_norm = true; },
      [](DecoderSpec& s) { s.parallel_residual = true; },
      [](DecoderSpec& s) { s.qk_norm = QkNorm::kHead; },
      [](DecoderSpec& s) { s.qk_norm = QkNorm::kWidth; },
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
      [](DecoderSpec& s) {
        s.rope.scaling = RopeSpec::Scaling::kLinear;
        s.rope.factor = 8;
      },
      [](DecoderSpec& s) { s.rope.scaling = RopeSpec::Scaling::kYarn; },
      [](DecoderSpec& s) {
        s.rope.scaling = RopeSpec::Scaling::kYarn;
        s.rope.beta_fast = 8;
      },
      [](DecoderSpec& s) {
        s.rope.scaling = RopeSpec::Scaling::kYarn;
        s.rope.beta_slow = 8;
      },
      [](DecoderSpec& s) {
        s.rope.scaling = RopeSpec::Scaling::kYarn;
        s.rope.truncate = false;
      },
      [](DecoderSpec& s) {
        s.rope.scaling = RopeSpec::Scaling::kYarn;
        s.rope.attention_factor = 1.5;
      },
      [](DecoderSpec& s) {
        s.rope.scaling = RopeSpec::Scaling::kLongRope;
        s.rope.divisors = {1, 2};
      },
      [](DecoderSpec& s) { s.sliding_rope = RopeSpec{}; },
      [](DecoderSpec& s) { s.sliding_rope = RopeSpec{.theta = 5}; },
      [](DecoderSpec& s) { s.learned_positions = true; },
      [](DecoderSpec& s) {
        s.learned_positions = true;
        s.position_offset = 2;
      },
      [](DecoderSpec& s) {
        s.layer_specs = {{.sliding = true}, {}};
      },
      [](DecoderSpec& s) {
        s.layer_specs = {{}, {.rotated = false}};
      },
      [](DecoderSpec& s) { s.gated_mlp = false; },
      [](DecoderSpec& s) { s.embedding_scale = 2; },
      [](DecoderSpec& s) { s.residual_scale = 2; },
      [](DecoderSpec& s) { s.attention_scale = 2; },
      [](DecoderSpec& s) { s.logit_scale = 2; },
      [](DecoderSpec& s) { s.activation = Activation::kRelu; },
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

TEST(DecoderSpec, ALayerHasItsWindowAndItsRope) {
  DecoderSpec spec;
  spec.layers = 3;
  spec.sliding_window = 7;
  EXPECT_EQ(spec.window(2), 7) << "all layers slide where none is told apart";
  EXPECT_EQ(spec.layer_rope(2), &spec.rope);
  spec.sliding_rope = RopeSpec{.theta = 5};
  spec.layer_specs = {{.sliding = true}, {}, {.sliding = true, .rotated = false}};
  EXPECT_EQ(spec.window(0), 7);
  EXPECT_EQ(spec.window(1), 0);
  EXPECT_EQ(spec.layer_rope(0), &*spec.sliding_rope);
  EXPECT_EQ(spec.layer_rope(1), &spec.rope);
  EXPECT_EQ(spec.layer_rope(2), nullptr);
  spec.learned_positions = true;
  EXPECT_EQ(spec.layer_rope(0), nullptr);
}

}  // namespace
}  // namespace tandem::model::testing
