#include "model/decoder.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/files.h"
#include "tests/model/support.h"

namespace tandem::model::testing {
namespace {

using ::testing::HasSubstr;

DecoderSpec GoldenSpec() { return ReadConfig(GoldenDirectory("llama3"))->spec; }

TEST(DecoderSpecCheck, NamesEveryValueThatIsNotComputed) {
  EXPECT_TRUE(Decoder::CheckSpec(GoldenSpec()).ok());
  struct Case {
    std::function<void(DecoderSpec&)> change;
    const char* problem;
  };
  const auto layer_norm = [](DecoderSpec& s) { s.norm.kind = NormSpec::Kind::kLayer; };
  const Case cases[] = {
      {[&](DecoderSpec& s) {
         layer_norm(s);
         s.qk_norm = QkNorm::kHead;
       },
       "qk_norm is head: supported: none where norm.kind is layer"},
      {[&](DecoderSpec& s) {
         layer_norm(s);
         s.post_norm = true;
       },
       "post_norm is true: supported: false where norm.kind is layer"},
      {[&](DecoderSpec& s) {
         layer_norm(s);
         s.norm.plus_one = true;
       },
       "norm.plus_one is true: supported: false where norm.kind is layer"},
      {[](DecoderSpec& s) { s.post_norm = s.parallel_residual = true; },
       "post_norm is true: supported: false where parallel_residual is true"},
      {[](DecoderSpec& s) { s.rope.partial_rotary_factor = 0.2; },
       "rope.partial_rotary_factor is 0.2: supported: what makes an even number of a head's "
       "elements, at least 2, at most all"},
  };
  for (const Case& c : cases) {
    DecoderSpec spec = GoldenSpec();
    c.change(spec);
    const absl::Status status = Decoder::CheckSpec(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.problem;
    EXPECT_EQ(status.message(),
              absl::StrCat("the decoder does not compute this model: ", c.problem));
  }
  DecoderSpec two = GoldenSpec();
  layer_norm(two);
  two.qk_norm = QkNorm::kWidth;
  two.post_norm = true;
  EXPECT_THAT(std::string(Decoder::CheckSpec(two).message()),
              HasSubstr("qk_norm is width: supported: none where norm.kind is layer; post_norm is "
                        "true: supported"));
}

TEST(DecoderSpecCheck, EachValueIsComputedByItself) {
  const std::function<void(DecoderSpec&)> changes[] = {
      [](DecoderSpec& s) { s.norm.kind = NormSpec::Kind::kLayer; },
      [](DecoderSpec& s) { s.qk_norm = QkNorm::kHead; },
      [](DecoderSpec& s) { s.rope.partial_rotary_factor = 0.5; },
      [](DecoderSpec& s) { s.activation = Activation::kGelu; },
      [](DecoderSpec& s) { s.activation = Activation::kGeluTanh; },
      [](DecoderSpec& s) { s.sliding_window = 4096; },
  };
  for (const auto& change : changes) {
    DecoderSpec spec = GoldenSpec();
    change(spec);
    EXPECT_TRUE(Decoder::CheckSpec(spec).ok()) << spec.Canonical();
  }
}

TEST(ConfigCheck, ComesBeforeAnythingIsLoaded) {
  TemporaryDirectory directory;
  directory.CopyModel("llama3");
  directory.EditJson("config.json", [](auto& json) { json["partial_rotary_factor"] = 0.5; });
  std::filesystem::remove(directory.file("model.safetensors"));
  const absl::Status status = Load({.directory = directory.path()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), directory.path() +
                                  "/config.json: partial_rotary_factor is 0.5: not supported in "
                                  "this family of models; it would change what is computed");
}

TEST(DecoderDeathTest, IsNotMadeForWhatItDoesNotCompute) {
  const std::string directory = GoldenDirectory("llama3");
  const Checkpoint checkpoint = *Checkpoint::Open(directory);
  const ModelConfig config = *ReadConfig(directory);
  const DecoderTensors tensors = *FindTensors(config.spec, config.family->tensors, checkpoint);
  DecoderSpec spec = config.spec;
  spec.post_norm = spec.parallel_residual = true;
  EXPECT_DEATH(
      Decoder(spec, DecoderWeights(spec, tensors, Dtype::kAuto, nullptr), {.pool_tokens = 512}, {}),
      "post_norm is true");
}

// The biases of q, k and v, of o, and of the MLP are three choices: a model that leaves one out
// gives what it gives with that one zero.
class Biases : public ::testing::Test {
 protected:
  using Logits = std::vector<std::vector<float>>;

  Logits Of(const DecoderSpec& spec, const DecoderTensors& tensors) {
    Decoder decoder(spec, DecoderWeights(spec, tensors, Dtype::kAuto, nullptr),
                    {.pool_tokens = 512}, {});
    std::mt19937 random(3);
    return AllLogits(decoder, RandomTokens(random, 20, decoder.info().vocabulary_size), 7);
  }

  // A tensor of zeros in the shape of `view`.
  const TensorView* Zeros(const TensorView* view) {
    zeros_.push_back(std::make_unique<TensorView>(*view));
    zeros_.back()->data = zero_bytes_.data();
    EXPECT_LE(view->bytes, zero_bytes_.size());
    return zeros_.back().get();
  }

  void ExpectLeftOutIsZero(bool DecoderSpec::*bias,
                           const std::vector<LinearView LayerTensors::*>& linears) {
    DecoderSpec without = config_.spec;
    ASSERT_TRUE(without.*bias);
    without.*bias = false;
    DecoderTensors zero = tensors_;
    DecoderTensors none = tensors_;
    for (size_t layer = 0; layer < tensors_.layers.size(); ++layer) {
      for (const auto linear : linears) {
        (zero.layers[layer].*linear).bias = Zeros((tensors_.layers[layer].*linear).bias);
        (none.layers[layer].*linear).bias = nullptr;
      }
    }
    const Logits left_out = Of(without, none);
    EXPECT_EQ(left_out, Of(config_.spec, zero));
    EXPECT_NE(left_out, Of(config_.spec, tensors_)) << "the golden model's biases are not zero";
    EXPECT_THAT(
        std::string(FindTensors(without, config_.family->tensors, checkpoint_).status().message()),
        HasSubstr("_proj.bias"))
        << "which are unexpected then";
  }

  const std::string directory_ = GoldenDirectory("biases");
  const ModelConfig config_ = *ReadConfig(directory_);
  const Checkpoint checkpoint_ = *Checkpoint::Open(directory_);
  const DecoderTensors tensors_ = *FindTensors(config_.spec, config_.family->tensors, checkpoint_);
  const std::string zero_bytes_ = std::string(1 << 16, '\0');
  std::vector<std::unique_ptr<TensorView>> zeros_;
};

TEST_F(Biases, OfQueriesKeysAndValues) {
  ExpectLeftOutIsZero(&DecoderSpec::qkv_bias,
                      {&LayerTensors::q, &LayerTensors::k, &LayerTensors::v});
}

TEST_F(Biases, OfTheAttentionsOutput) {
  ExpectLeftOutIsZero(&DecoderSpec::o_bias, {&LayerTensors::o});
}

TEST_F(Biases, OfTheMlp) {
  ExpectLeftOutIsZero(&DecoderSpec::mlp_bias,
                      {&LayerTensors::gate, &LayerTensors::up, &LayerTensors::down});
}

}  // namespace
}  // namespace tandem::model::testing
