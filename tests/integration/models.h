// The models that these tests run on, and what a target alone writes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/tokenizer/tokenizer.h"
#include "model/language_model.h"

namespace tandem::testing {

// The directories of the demo's pair.
std::string DemoTarget();
std::string DemoDraft();

bool Exists(const std::string& path);

// Both CHECK that they succeed.
std::unique_ptr<model::LanguageModel> LoadModel(const std::string& directory, int threads = 2);
std::shared_ptr<const tokenizer::Tokenizer> LoadTokenizer(const std::string& directory);

// A byte-level tokenizer of `vocabulary_size` (2 to 26) letters: id 0 is "a", and so on.
std::string LettersTokenizerJson(uint32_t vocabulary_size);
std::shared_ptr<const tokenizer::Tokenizer> LettersTokenizer(uint32_t vocabulary_size);

// A tiny Llama with random weights and a tokenizer of letters, written into `directory`: one layer,
// hidden 16, 2 heads, context 64. Different seeds are different models.
void WriteTinyLlama(const std::string& directory, uint32_t vocabulary_size, uint32_t seed);

// What the model writes by itself at temperature 0, one token a step, with neither service nor
// draft: up to max_tokens, with the end-of-text token if it comes.
std::vector<uint32_t> GreedyAlone(model::LanguageModel& model, absl::Span<const uint32_t> prompt,
                                  uint32_t max_tokens, uint32_t vocabulary_size);

// Beginnings of stories and of technical prose, for the demo pair.
std::vector<std::string> TenPrompts();

// A folder of this test's own, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

}  // namespace tandem::testing
