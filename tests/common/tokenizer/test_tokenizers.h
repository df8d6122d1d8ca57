// Tokenizers and texts for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/tokenizer/bridge/tandem_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/support/paths.h"

namespace tandem::tokenizer {

inline std::string DemoDirectory() { return ::tandem::testing::SourcePath("demo/target"); }

inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Byte-level BPE of 4096 tokens, <|endoftext|> = 0.
inline std::unique_ptr<Tokenizer> LoadDemo() {
  auto tokenizer = Tokenizer::Load(DemoDirectory());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return std::move(*tokenizer);
}

// SentencePiece-like, as Llama 2: <unk> <s> </s>, the bytes 0 to 255 (ids 3 to 258), then letters
// and a few pieces; <s> is put in front, a leading space is added and stripped.
inline constexpr uint32_t kFirstByteToken = 3;

inline nlohmann::json ByteFallbackJson() {
  nlohmann::json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) {
    vocab[absl::StrFormat("<0x%02X>", byte)] = kFirstByteToken + static_cast<uint32_t>(byte);
  }
  for (const char* piece : {"▁", "h", "e", "l", "o", "w", "r", "d", "é", "he", "ll", "hell",
                            "hello", "▁hello", "wo", "▁wo", "▁▁"}) {
    vocab[piece] = vocab.size();
  }
  const auto added = [](uint32_t id, const char* content) {
    return nlohmann::json{{"id", id},        {"content", content}, {"single_word", false},
                          {"lstrip", false}, {"rstrip", false},    {"normalized", false},
                          {"special", true}};
  };
  return {
      {"version", "1.0"},
      {"added_tokens", {added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")}},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", "▁"}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
      {"pre_tokenizer", nullptr},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", nlohmann::json::array()},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}},
          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", {"h e", "l l", "he ll", "hell o", "▁ hello", "w o", "▁ wo", "▁ ▁"}}}},
  };
}

inline std::unique_ptr<Tokenizer> MakeTokenizer(const nlohmann::json& json) {
  auto tokenizer = Tokenizer::FromJson(json.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return std::move(*tokenizer);
}

// What the tokenizers crate itself makes of ids.
class CrateDecoder {
 public:
  explicit CrateDecoder(const std::string& json) {
    TandemBuffer error{};
    bridge_ =
        tandem_tokenizer_new(reinterpret_cast<const uint8_t*>(json.data()), json.size(), &error);
    EXPECT_NE(bridge_, nullptr);
  }
  ~CrateDecoder() { tandem_tokenizer_free(bridge_); }
  CrateDecoder(const CrateDecoder&) = delete;
  CrateDecoder& operator=(const CrateDecoder&) = delete;

  std::string Decode(const std::vector<uint32_t>& ids) const {
    TandemBuffer text{}, error{};
    EXPECT_TRUE(tandem_tokenizer_decode(bridge_, ids.data(), ids.size(), &text, &error));
    std::string result(reinterpret_cast<const char*>(text.data), text.size);
    tandem_buffer_free(text);
    return result;
  }

 private:
  TandemTokenizer* bridge_;
};

inline void AppendCodePoint(uint32_t code, std::string& text) {
  const auto put = [&text](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  }
}

// Any code points but surrogates, from all planes, with much ASCII and white space among them.
inline std::string RandomText(std::mt19937& random, size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) {
    uint32_t code = 0;
    switch (random() % 6) {
      case 0:
        code = " \n\t\r"[random() % 4];
        break;
      case 1:
        code = 0x21 + random() % 0x5E;
        break;
      case 2:
        code = 0x80 + random() % 0x780;
        break;
      case 3:
        code = 0x4E00 + random() % 0x5000;
        break;
      case 4:
        code = 0x1F300 + random() % 0x300;
        break;
      default:
        code = random() % 0x110000;
        break;
    }
    if (code >= 0xD800 && code < 0xE000) code = 'x';
    AppendCodePoint(code, text);
  }
  return text;
}

// An independent reading of UTF-8: a character is what encodes back to the same bytes.
inline size_t CharacterLength(std::string_view bytes) {
  for (size_t length = 1; length <= 4 && length <= bytes.size(); ++length) {
    const auto at = [&bytes](size_t i) { return static_cast<uint8_t>(bytes[i]); };
    uint32_t code = length == 1 ? at(0) : at(0) & (0x7F >> length);
    for (size_t i = 1; i < length; ++i) code = code << 6 | (at(i) & 0x3F);
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) continue;
    std::string encoded;
    AppendCodePoint(code, encoded);
    if (encoded == bytes.substr(0, length)) return length;
  }
  return 0;
}

inline bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace tandem::tokenizer
