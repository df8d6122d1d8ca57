// What the type that weights are held as does to a pair: the perplexity of a target on a text, and
// how much of a draft's distribution a target in fp32 accepts (the sum over tokens of min(p, q),
// Leviathan et al. 2023, equation 4), at temperature 1.
// Usage: held_as_bench [target] [draft] [text file] [tokens] [dtypes …]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/tokenizer/tokenizer.h"
#include "model/load.h"

namespace tandem::bench {
namespace {

using model::Dtype;

constexpr int kWindow = 256;  // tokens of a text that are read together

template <class T>
T OrExit(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(1);
}

std::vector<double> Softmax(absl::Span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double sum = 0;
  for (float logit : logits) sum += p.emplace_back(std::exp(double{logit} - largest));
  for (double& value : p) value /= sum;
  return p;
}

// The distribution after each token of the text but each window's last.
std::vector<std::vector<double>> Distributions(const std::string& directory, Dtype dtype,
                                               const std::vector<uint32_t>& tokens) {
  auto model = OrExit(model::Load({.directory = directory, .threads = 2, .dtype = dtype}));
  std::vector<std::vector<double>> rows;
  for (size_t first = 0; first + kWindow <= tokens.size(); first += kWindow) {
    auto cache = OrExit(model->NewCache(kWindow));
    const auto logits =
        OrExit(model->Forward({{cache.get(), absl::MakeSpan(tokens).subspan(first, kWindow), 0}}));
    for (int row = 0; row + 1 < kWindow; ++row) rows.push_back(Softmax(logits.row(row)));
  }
  return rows;
}

double Perplexity(const std::vector<std::vector<double>>& rows,
                  const std::vector<uint32_t>& tokens) {
  double sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t at = i / (kWindow - 1) * kWindow + i % (kWindow - 1);
    sum -= std::log(rows[i][tokens[at + 1]]);
  }
  return std::exp(sum / static_cast<double>(rows.size()));
}

double Accepted(const std::vector<std::vector<double>>& p,
                const std::vector<std::vector<double>>& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    for (size_t token = 0; token < p[i].size(); ++token) sum += std::min(p[i][token], q[i][token]);
  }
  return sum / static_cast<double>(p.size());
}

void Run(const std::string& target, const std::string& draft, const std::string& file, size_t count,
         const std::vector<Dtype>& dtypes) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto tokenizer = OrExit(tokenizer::Tokenizer::Load(target));
  std::vector<uint32_t> tokens = OrExit(tokenizer->Encode(text));
  tokens.resize(std::min(tokens.size(), count) / kWindow * kWindow);
  if (tokens.empty()) {
    std::fprintf(stderr, "%s: at least %d tokens of text are required\n", file.c_str(), kWindow);
    std::exit(1);
  }
  std::printf("%zu tokens of %s\n", tokens.size(), file.c_str());
  const auto p = Distributions(target, Dtype::kFloat32, tokens);
  const double perplexity = Perplexity(p, tokens);
  for (Dtype dtype : dtypes) {
    const double held = Perplexity(Distributions(target, dtype, tokens), tokens);
    std::printf("target %s: perplexity %.4f, %.4f of fp32's\n", DtypeName(dtype), held,
                held / perplexity);
    std::fflush(stdout);
  }
  for (Dtype dtype : dtypes) {
    std::printf("draft %s for a target in fp32: acceptance %.4f\n", DtypeName(dtype),
                Accepted(p, Distributions(draft, dtype, tokens)));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  using tandem::model::Dtype;
  std::vector<Dtype> dtypes;
  for (int i = 5; i < argc; ++i) {
    dtypes.push_back(tandem::bench::OrExit(tandem::model::ParseDtype(argv[i])));
  }
  if (dtypes.empty()) {
    dtypes = {Dtype::kFloat32, Dtype::kBfloat16, Dtype::kFloat16, Dtype::kInt8, Dtype::kInt4};
  }
  tandem::bench::Run(argc > 1 ? argv[1] : "demo/target", argc > 2 ? argv[2] : "demo/draft",
                     argc > 3 ? argv[3] : "README.md", argc > 4 ? std::atoi(argv[4]) : 20000,
                     dtypes);
}
