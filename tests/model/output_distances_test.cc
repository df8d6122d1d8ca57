#include "model/output_distances.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "model/model_files.h"
#include "tests/support/paths.h"

namespace tandem::model {
namespace {

// The demo draft's output is its embedding, in bf16.
TEST(OutputDistances, AreThoseOfTheFilesRows) {
  const auto files =
      ReadModelFiles(::tandem::testing::SourcePath("demo/draft"), /*sampling_defaults=*/false,
                     [](const ModelConfig&) { return absl::OkStatus(); });
  ASSERT_TRUE(files.ok()) << files.status();
  const TensorView& output = files->checkpoint.tensors().at("model.embed_tokens.weight");
  ASSERT_EQ(output.dtype, "BF16");
  const size_t rows = static_cast<size_t>(output.shape[0]);
  const size_t columns = static_cast<size_t>(output.shape[1]);
  const auto value = [&](size_t row, size_t column) {
    uint16_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(output.data) + 2 * (row * columns + column), 2);
    return static_cast<double>(std::bit_cast<float>(uint32_t{bits} << 16));
  };
  std::vector<double> squares(rows);
  for (size_t column = 0; column < columns; ++column) {
    double mean = 0;
    for (size_t row = 0; row < rows; ++row) mean += value(row, column) / static_cast<double>(rows);
    for (size_t row = 0; row < rows; ++row) squares[row] += std::pow(value(row, column) - mean, 2);
  }
  const std::vector<double> distances = OutputDistances(*files);
  ASSERT_EQ(distances.size(), rows);
  for (size_t row = 0; row < rows; ++row) {
    ASSERT_NEAR(distances[row], std::sqrt(squares[row]), 1e-9) << row;
  }
}

}  // namespace
}  // namespace tandem::model
