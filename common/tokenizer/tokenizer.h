// Text to token ids and back, from a Hugging Face tokenizer.json (the tokenizers crate does the
// work).
//
// Thread safety: const methods from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem::tokenizer {

struct AroundText;

class Tokenizer {
 public:
  // Reads `directory`/tokenizer.json (of a model's folder in the hub's cache, that of its snapshot;
  // common/hub/snapshot_directory.h), and of `directory`/tokenizer_config.json, where it is, which
  // tokens stand around a text (around_text.h) and which one ends it; special_tokens_map.json may
  // name another that does. Errors name the file and what is wrong: those of base::ReadRegularFile,
  // and INVALID_ARGUMENT. A warning is logged where the second file overrules the first, and where
  // an eos_token is not a token of the first.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& directory);
  // From the text of a tokenizer.json. INVALID_ARGUMENT also for a decoder that gives a token
  // another text beside other tokens: such a text could not be streamed. Byte-level, Metaspace and
  // SentencePiece's decoders (byte fallback, leading space) can.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(std::string_view json);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // INVALID_ARGUMENT when text is not UTF-8. add_special_tokens: as the tokenizer's post-processor
  // does, or as tokenizer_config.json says (a beginning-of-text token, say). parse_special_tokens:
  // the name of a special token within the text becomes that token. Else it is encoded as other
  // text is; INVALID_ARGUMENT where the tokenizer cannot do that (a name of one character).
  absl::StatusOr<std::vector<uint32_t>> Encode(std::string_view text,
                                               bool add_special_tokens = true,
                                               bool parse_special_tokens = true) const;

  // Special tokens have no text. An id that is not in the vocabulary is INVALID_ARGUMENT.
  // Bytes that are part of no character become U+FFFD, and characters around them stay, as in
  // SentencePiece. (The tokenizers crate replaces a whole run of byte tokens if one of them is
  // wrong, which a text that was streamed could not follow; otherwise the two agree.)
  absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> ids) const;

  uint32_t vocabulary_size() const;  // largest id + 1
  bool IsSpecial(uint32_t id) const;
  bool IsToken(uint32_t id) const;  // false for holes and for padding of a model's embedding

  // Each once: the eos_token of tokenizer_config.json and that of special_tokens_map.json.
  absl::Span<const uint32_t> eos_token_ids() const;

  // What the id stands for within a text, possibly part of a character; a special token's name;
  // empty for what is not a token. Lives as long as the tokenizer.
  std::string_view TokenBytes(uint32_t id) const;

  // Of the longest token; at least 1.
  size_t max_token_bytes() const;

  // Content ids (content_id.h): equal when every id means the same bytes.
  const std::string& content_id() const;
  uint32_t TokenHash(uint32_t id) const;            // 0 for what is not a token
  absl::Span<const uint32_t> token_hashes() const;  // of all ids, vocabulary_size() of them

 private:
  friend class IncrementalDetokenizer;
  friend class ChatTemplate;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  absl::Status ReadConfig(const std::string& config);
  absl::Status SetAround(const AroundText& around);
  absl::Status AddEosToken(const std::string& json);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::tokenizer
