#include "common/gguf/tokenizer_json.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"

namespace tandem::gguf {
namespace {

using base::JsonObject;
using base::JsonText;

// tokenizer.ggml.token_type
enum TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6 };

// How a text is cut before merges, by tokenizer.ggml.pre. The patterns are those of the tokenizers
// themselves, as their publishers wrote them into tokenizer.json.
constexpr char kGpt2[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kGpt4o[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct PreTokenizer {
  const char* name;
  const char* pattern;
  bool digits = false;  // each digit apart, before the pattern
  bool nfc = false;     // texts are composed first
  // A piece that is a token is that token. And files that do not say whether texts begin with a
  // token mean that they do.
  bool ignore_merges = false;
};
constexpr PreTokenizer kPreTokenizers[] = {
    {"gpt-2", kGpt2},
    {"gpt-neox", kGpt2},
    {"phi-2", kGpt2},
    {"olmo", kGpt2},
    {"mpt", kGpt2},
    {"smollm", kGpt2, true},
    {"starcoder", kGpt2, true},
    {"refact", kGpt2, true},
    {"command-r", kGpt2, true},
    {"llama-bpe", kLlama3, false, false, true},
    {"llama3", kLlama3, false, false, true},
    {"llama-v3", kLlama3, false, false, true},
    {"falcon3", kLlama3, false, false, true},
    {"smaug-bpe", kLlama3},
    {"dbrx", kLlama3},
    {"qwen2", kQwen2, false, true},
    {"deepseek-r1-qwen", kQwen2, false, true},
    {"gpt-4o", kGpt4o},
    {"tekken", kTekken, false, false, true},
};

struct Vocabulary {
  std::vector<absl::string_view> tokens;
  std::vector<double> types;   // as many, or none: all are normal
  std::vector<double> scores;  // as many, or none

  int type(size_t id) const {
    if (types.empty()) return kNormal;
    constexpr double kMost = kByte;
    return types[id] >= 1 && types[id] <= kMost ? static_cast<int>(types[id]) : 0;
  }
};

constexpr char kReplacement[] = "\xef\xbf\xbd";

// A tokenizer.json finds ids by names. So a name that another token has, or that JSON would change
// into one, would leave a token without its id.
absl::Status CheckNames(const std::vector<absl::string_view>& tokens) {
  absl::flat_hash_map<absl::string_view, size_t> ids;
  ids.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    // JSON has U+FFFD where a string was not UTF-8.
    if (absl::StrContains(JsonText(tokens[id]).text(), kReplacement) &&
        !absl::StrContains(tokens[id], kReplacement)) {
      return absl::InvalidArgumentError(absl::StrCat("token ", id, " of tokenizer.ggml.tokens, ",
                                                     base::Excerpt(tokens[id]), ", is not UTF-8"));
    }
    const auto [first, is_new] = ids.emplace(tokens[id], id);
    if (is_new) continue;
    return absl::InvalidArgumentError(absl::StrCat("tokens ", first->second, " and ", id,
                                                   " of tokenizer.ggml.tokens are both ",
                                                   base::Excerpt(tokens[id])));
  }
  return absl::OkStatus();
}

absl::StatusOr<Vocabulary> ReadVocabulary(const File& file) {
  Vocabulary vocabulary;
  auto tokens = file.Strings("tokenizer.ggml.tokens");
  if (!tokens.has_value() || tokens->empty()) {
    return absl::InvalidArgumentError(
        "key tokenizer.ggml.tokens is missing: the file holds no tokenizer");
  }
  vocabulary.tokens = *std::move(tokens);
  TANDEM_RETURN_IF_ERROR(CheckNames(vocabulary.tokens));
  const size_t size = vocabulary.tokens.size();
  for (const auto& [key, list] : {std::pair("tokenizer.ggml.token_type", &vocabulary.types),
                                  std::pair("tokenizer.ggml.scores", &vocabulary.scores)}) {
    if (auto numbers = file.Numbers(key)) *list = *std::move(numbers);
    if (list->empty() || list->size() == size) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("key ", key, " has ", list->size(), " entries for ", size, " tokens"));
  }
  return vocabulary;
}

// A token's id under `key`; absent: there is none.
absl::StatusOr<std::optional<uint32_t>> IdAt(const File& file, absl::string_view key,
                                             const Vocabulary& vocabulary) {
  const std::optional<int64_t> id = file.Integer(key);
  if (!id.has_value()) return std::nullopt;
  if (*id < 0 || *id >= static_cast<int64_t>(vocabulary.tokens.size())) {
    return absl::InvalidArgumentError(absl::StrCat("key ", key, " is ", *id, ", and there are ",
                                                   vocabulary.tokens.size(), " tokens"));
  }
  return static_cast<uint32_t>(*id);
}

std::string AddedTokens(const Vocabulary& vocabulary) {
  std::vector<std::string> added;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const int type = vocabulary.type(id);
    if (type != kControl && type != kUserDefined && type != kUnknown) continue;
    added.push_back(JsonObject({{"id", id},
                                {"content", vocabulary.tokens[id]},
                                {"single_word", false},
                                {"lstrip", false},
                                {"rstrip", false},
                                {"normalized", false},
                                {"special", type != kUserDefined}})
                        .text());
  }
  return absl::StrCat("[", absl::StrJoin(added, ","), "]");
}

std::string VocabularyJson(const Vocabulary& vocabulary) {
  std::string json = "{";
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    absl::StrAppend(&json, id == 0 ? "" : ",", JsonText(vocabulary.tokens[id]).text(), ":", id);
  }
  return json + "}";
}

std::string PairJson(absl::string_view left, absl::string_view right) {
  return absl::StrCat("[", JsonText(left).text(), ",", JsonText(right).text(), "]");
}

// What stands around a text, as add_bos_token and add_eos_token say.
absl::StatusOr<std::string> PostProcessor(const File& file, const Vocabulary& vocabulary,
                                          bool bos_by_default) {
  std::vector<JsonText> parts;
  JsonObject tokens;
  const auto add = [&](absl::string_view flag, absl::string_view key,
                       bool by_default) -> absl::Status {
    if (!file.Bool(flag).value_or(by_default)) return absl::OkStatus();
    TANDEM_ASSIGN_OR_RETURN(const std::optional<uint32_t> id, IdAt(file, key, vocabulary));
    if (!id.has_value()) return absl::OkStatus();
    const absl::string_view name = vocabulary.tokens[*id];
    parts.emplace_back(JsonObject({{"SpecialToken", JsonObject({{"id", name}, {"type_id", 0}})}}));
    tokens.Set(name, JsonObject({{"id", name},
                                 {"ids", std::vector<JsonText>{static_cast<int64_t>(*id)}},
                                 {"tokens", std::vector<JsonText>{name}}}));
    return absl::OkStatus();
  };
  TANDEM_RETURN_IF_ERROR(
      add("tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", bos_by_default));
  parts.emplace_back(JsonObject({{"Sequence", JsonObject({{"id", "A"}, {"type_id", 0}})}}));
  TANDEM_RETURN_IF_ERROR(add("tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false));
  if (parts.size() == 1) return "null";
  return JsonObject({{"type", "TemplateProcessing"},
                     {"single", parts},
                     {"pair", parts},
                     {"special_tokens", tokens}})
      .text();
}

std::string Assemble(const Vocabulary& vocabulary, const std::string& normalizer,
                     const std::string& pre_tokenizer, const std::string& post_processor,
                     const std::string& decoder, const std::string& model) {
  return absl::StrCat(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)",
                      AddedTokens(vocabulary), R"(,"normalizer":)", normalizer,
                      R"(,"pre_tokenizer":)", pre_tokenizer, R"(,"post_processor":)",
                      post_processor, R"(,"decoder":)", decoder, R"(,"model":)", model, "}");
}

std::string ModelJson(const Vocabulary& vocabulary, const std::vector<std::string>& merges,
                      const JsonText& unknown, bool byte_fallback, bool ignore_merges) {
  return absl::StrCat(R"({"type":"BPE","dropout":null,"unk_token":)", unknown.text(),
                      R"(,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":)",
                      byte_fallback ? "true" : "false", R"(,"byte_fallback":)",
                      byte_fallback ? "true" : "false", R"(,"ignore_merges":)",
                      ignore_merges ? "true" : "false", R"(,"vocab":)", VocabularyJson(vocabulary),
                      R"(,"merges":[)", absl::StrJoin(merges, ","), "]}");
}

// Bytes as characters, and merges in a list.
absl::StatusOr<std::string> ByteLevelJson(const File& file, const Vocabulary& vocabulary) {
  const std::string name(file.String("tokenizer.ggml.pre").value_or("default"));
  const auto* pre = std::find_if(std::begin(kPreTokenizers), std::end(kPreTokenizers),
                                 [&](const PreTokenizer& one) { return name == one.name; });
  if (pre == std::end(kPreTokenizers)) {
    std::vector<std::string> names;
    for (const PreTokenizer& one : kPreTokenizers) names.emplace_back(one.name);
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.pre is ", base::Excerpt(name),
                                                   "; supported: ", absl::StrJoin(names, ", ")));
  }
  const auto pairs = file.Strings("tokenizer.ggml.merges");
  if (!pairs.has_value()) return absl::InvalidArgumentError("key tokenizer.ggml.merges is missing");
  std::vector<std::string> merges;
  for (absl::string_view pair : *pairs) {
    const size_t space = pair.find(' ', 1);
    if (space == absl::string_view::npos || space + 1 == pair.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("entry ", merges.size(), " of tokenizer.ggml.merges is ",
                       base::Excerpt(pair), "; it must be two parts with a space between"));
    }
    merges.push_back(PairJson(pair.substr(0, space), pair.substr(space + 1)));
  }
  std::vector<JsonText> cuts;
  if (pre->digits) cuts.emplace_back(JsonObject({{"type", "Digits"}, {"individual_digits", true}}));
  cuts.emplace_back(JsonObject({{"type", "Split"},
                                {"pattern", JsonObject({{"Regex", pre->pattern}})},
                                {"behavior", "Isolated"},
                                {"invert", false}}));
  const JsonObject bytes({{"type", "ByteLevel"},
                          {"add_prefix_space", false},
                          {"trim_offsets", true},
                          {"use_regex", false}});
  cuts.emplace_back(bytes);
  TANDEM_ASSIGN_OR_RETURN(const std::string post,
                          PostProcessor(file, vocabulary, pre->ignore_merges));
  return Assemble(
      vocabulary, pre->nfc ? JsonObject({{"type", "NFC"}}).text() : "null",
      JsonObject({{"type", "Sequence"}, {"pretokenizers", cuts}}).text(), post, bytes.text(),
      ModelJson(vocabulary, merges, nullptr, /*byte_fallback=*/false, pre->ignore_merges));
}

// Gemma's longest piece has 93 bytes, and its vocabulary of 262,144 some 500,000 merges.
constexpr size_t kMaxPieceBytes = 512, kMaxMerges = 1 << 22;

// SentencePiece has no merges: it joins whatever pair makes the piece of the highest score. So each
// way to make a piece of two others is a merge, in the order of the pieces' scores (as transformers
// converts it).
absl::StatusOr<std::vector<std::string>> MergesByScore(const Vocabulary& vocabulary) {
  std::map<absl::string_view, uint32_t> ids;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.type(id) == kNormal) ids.emplace(vocabulary.tokens[id], id);
  }
  std::vector<uint32_t> pieces;
  for (const auto& [piece, id] : ids) pieces.push_back(id);
  std::sort(pieces.begin(), pieces.end(), [&](uint32_t a, uint32_t b) {
    const double left = vocabulary.scores[a], right = vocabulary.scores[b];
    return left != right ? left > right : a < b;
  });
  std::vector<std::string> merges;
  for (uint32_t id : pieces) {
    const absl::string_view piece = vocabulary.tokens[id];
    if (piece.size() > kMaxPieceBytes || merges.size() > kMaxMerges) {
      return absl::InvalidArgumentError(
          piece.size() > kMaxPieceBytes
              ? absl::StrCat("token ", id, " has ", piece.size(), " bytes; supported: at most ",
                             kMaxPieceBytes)
              : absl::StrCat("more than ", kMaxMerges, " pairs of tokens make a token"));
    }
    std::vector<std::pair<uint32_t, uint32_t>> parts;
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      if ((static_cast<unsigned char>(piece[cut]) & 0xc0) == 0x80) continue;  // within a character
      const auto left = ids.find(piece.substr(0, cut));
      const auto right = ids.find(piece.substr(cut));
      if (left != ids.end() && right != ids.end()) parts.emplace_back(left->second, right->second);
    }
    std::sort(parts.begin(), parts.end());
    for (const auto& [left, right] : parts) {
      merges.push_back(PairJson(vocabulary.tokens[left], vocabulary.tokens[right]));
    }
  }
  return merges;
}

constexpr char kUnderline[] = "\xe2\x96\x81";  // what SentencePiece has in place of a space

absl::StatusOr<std::string> SentencePieceJson(const File& file, const Vocabulary& vocabulary) {
  if (vocabulary.scores.empty())
    return absl::InvalidArgumentError("key tokenizer.ggml.scores is missing");
  TANDEM_ASSIGN_OR_RETURN(const std::optional<uint32_t> unknown,
                          IdAt(file, "tokenizer.ggml.unknown_token_id", vocabulary));
  const bool prefix = file.Bool("tokenizer.ggml.add_space_prefix").value_or(true);
  std::vector<JsonText> normalizers, decoders;
  if (prefix) normalizers.emplace_back(JsonObject({{"type", "Prepend"}, {"prepend", kUnderline}}));
  normalizers.emplace_back(JsonObject(
      {{"type", "Replace"}, {"pattern", JsonObject({{"String", " "}})}, {"content", kUnderline}}));
  decoders.emplace_back(JsonObject(
      {{"type", "Replace"}, {"pattern", JsonObject({{"String", kUnderline}})}, {"content", " "}}));
  decoders.emplace_back(JsonObject({{"type", "ByteFallback"}}));
  decoders.emplace_back(JsonObject({{"type", "Fuse"}}));
  if (prefix)
    decoders.emplace_back(
        JsonObject({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}));
  TANDEM_ASSIGN_OR_RETURN(const std::string post,
                          PostProcessor(file, vocabulary, /*bos_by_default=*/true));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> merges, MergesByScore(vocabulary));
  const JsonText unknown_name =
      unknown.has_value() ? JsonText(vocabulary.tokens[*unknown]) : JsonText(nullptr);
  return Assemble(vocabulary,
                  JsonObject({{"type", "Sequence"}, {"normalizers", normalizers}}).text(), "null",
                  post, JsonObject({{"type", "Sequence"}, {"decoders", decoders}}).text(),
                  ModelJson(vocabulary, merges, unknown_name, /*byte_fallback=*/true,
                            /*ignore_merges=*/false));
}

}  // namespace

absl::StatusOr<std::string> TokenizerJson(const File& file) {
  TANDEM_ASSIGN_OR_RETURN(const Vocabulary vocabulary, ReadVocabulary(file));
  const std::string model(file.String("tokenizer.ggml.model").value_or(""));
  if (model == "gpt2") return ByteLevelJson(file, vocabulary);
  if (model == "llama") return SentencePieceJson(file, vocabulary);
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer.ggml.model is ", base::Excerpt(model), "; supported: gpt2, llama"));
}

absl::StatusOr<std::string> TokenizerConfigJson(const File& file) {
  TANDEM_ASSIGN_OR_RETURN(const Vocabulary vocabulary, ReadVocabulary(file));
  JsonObject json({{"tokenizer_class", "PreTrainedTokenizerFast"}});
  for (const auto& [name, key] : {std::pair("bos_token", "tokenizer.ggml.bos_token_id"),
                                  std::pair("eos_token", "tokenizer.ggml.eos_token_id"),
                                  std::pair("unk_token", "tokenizer.ggml.unknown_token_id"),
                                  std::pair("pad_token", "tokenizer.ggml.padding_token_id")}) {
    TANDEM_ASSIGN_OR_RETURN(const std::optional<uint32_t> id, IdAt(file, key, vocabulary));
    if (id.has_value()) json.Set(name, vocabulary.tokens[*id]);
  }
  if (const auto chat = file.String("tokenizer.chat_template")) json.Set("chat_template", *chat);
  return json.text();
}

}  // namespace tandem::gguf
