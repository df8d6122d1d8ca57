// Checkpoints whose weights are int8 already, as compressed-tensors writes them (int-quantized).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/half.h"
#include "model/files/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/model/files.h"

namespace tandem::model::testing {

// What the library writes for w8a8.
inline constexpr char kW8a8Scheme[] = R"({
  "config_groups": {"group_0": {
    "input_activations": {"actorder": null, "block_structure": null, "dynamic": true,
      "group_size": null, "num_bits": 8, "observer": "memoryless", "observer_kwargs": {},
      "strategy": "token", "symmetric": true, "type": "int"},
    "output_activations": null,
    "targets": ["Linear"],
    "weights": {"actorder": null, "block_structure": null, "dynamic": false, "group_size": null,
      "num_bits": 8, "observer": "minmax", "observer_kwargs": {}, "strategy": "channel",
      "symmetric": true, "type": "int"}}},
  "format": "int-quantized", "global_compression_ratio": 1.27, "ignore": ["lm_head"],
  "kv_cache_scheme": null, "quant_method": "compressed-tensors",
  "quantization_status": "compressed"})";

// Tensors of a file in the making.
class SafetensorsWriter {
 public:
  void Add(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape,
           const std::string& bytes) {
    header_[name] = {{"dtype", dtype},
                     {"shape", shape},
                     {"data_offsets", {data_.size(), data_.size() + bytes.size()}}};
    data_ += bytes;
  }
  void Write(const std::string& path) const {
    WriteBytes(path, Safetensors(header_.dump(), data_));
  }

 private:
  nlohmann::json header_;
  std::string data_;
};

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A golden model as int8, and the same numbers as float32.
class Int8Checkpoint {
 public:
  enum class Levels {
    kLibrary,  // -128 to 127, the largest at 127.5
    kOurs,     // as dtype int8 makes them: -127 to 127, the largest at 127; the output, too
  };

  // Call it with EXPECT_NO_FATAL_FAILURE or ASSERT_NO_FATAL_FAILURE. `table`: the embedding, too;
  // it is read in the type of its scale, bf16.
  void Make(const std::string& variant, Levels levels, bool table = false) {
    int8_.CopyModel(variant);
    floats_.CopyModel(variant);
    auto file = SafetensorsFile::Open(int8_.file("model.safetensors"));
    ASSERT_TRUE(file.ok()) << file.status();
    SafetensorsWriter integers;
    SafetensorsWriter floats;
    for (const auto& [name, view] : (*file)->tensors()) {
      const std::string bytes(static_cast<const char*>(view.data), view.bytes);
      ASSERT_EQ(view.dtype, "F32");
      const bool embedding = table && name.find("embed_tokens") != std::string::npos;
      const bool linear = embedding || name.find("layers.") != std::string::npos ||
                          (levels == Levels::kOurs && name.find("lm_head") == 0);
      if (!linear || view.shape.size() != 2) {
        integers.Add(name, view.dtype, view.shape, bytes);
        floats.Add(name, view.dtype, view.shape, bytes);
        continue;
      }
      std::vector<int8_t> rounded;
      std::vector<uint16_t> scales;
      std::vector<float> values;
      std::vector<float> row(view.shape[1]);
      for (int64_t i = 0; i < view.shape[0]; ++i) {
        std::memcpy(row.data(), bytes.data() + i * row.size() * 4, row.size() * 4);
        float largest = 0;
        for (float value : row) largest = std::max(largest, std::fabs(value));
        const bool ours = levels == Levels::kOurs;
        scales.push_back(cpu::ToBfloat16(largest / (ours ? 127.0f : 127.5f)));
        const float scale = cpu::FromBfloat16(scales.back());
        for (float value : row) {
          float level = std::clamp(std::nearbyint(value / scale), ours ? -127.0f : -128.0f, 127.0f);
          if (ours && std::fabs(value) == largest) level = std::copysign(127.0f, value);
          rounded.push_back(static_cast<int8_t>(level));
          values.push_back(static_cast<float>(rounded.back()) * scale);  // no -0
          if (embedding) values.back() = cpu::FromBfloat16(cpu::ToBfloat16(values.back()));
        }
      }
      integers.Add(name, "I8", view.shape, BytesOf(rounded));
      integers.Add(name + "_scale", "BF16", {view.shape[0], 1}, BytesOf(scales));
      floats.Add(name, "F32", view.shape, BytesOf(values));
    }
    integers.Write(int8_.file("model.safetensors"));
    floats.Write(floats_.file("model.safetensors"));
    int8_.EditJson("config.json", [](nlohmann::json& json) {
      json["quantization_config"] = nlohmann::json::parse(kW8a8Scheme);
    });
  }

 protected:
  TemporaryDirectory floats_{"floats"};
  TemporaryDirectory int8_{"int8"};
};

}  // namespace tandem::model::testing
