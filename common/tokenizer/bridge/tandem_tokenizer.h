// The C interface of the tokenizer bridge (src/lib.rs). Only common/tokenizer/*.cc includes it.
//
// Memory: what a function returns as TandemBuffer or TandemIds belongs to the caller, who gives it
// back with tandem_buffer_free or tandem_ids_free; an empty one need not be given back. TandemView
// points into the tokenizer and lives as long as it. Inputs are borrowed for the call only; a null
// pointer is allowed where the size is 0. Errors: a function that can fail returns false (or null)
// and leaves UTF-8 text in *error, to be given back with tandem_buffer_free; its other outputs are
// untouched. A panic inside becomes such an error. No text that was encoded is kept. Threads: a
// tokenizer may be used from any number of threads at once, but for tandem_tokenizer_free.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TandemTokenizer TandemTokenizer;

typedef struct {
  uint8_t* data;
  size_t size;
} TandemBuffer;

typedef struct {
  uint32_t* data;
  size_t size;
} TandemIds;

typedef struct {
  const uint8_t* data;
  size_t size;
} TandemView;

enum {
  TANDEM_TOKEN_NONE = 0,  // a hole, or beyond the vocabulary
  TANDEM_TOKEN_NORMAL = 1,
  TANDEM_TOKEN_SPECIAL = 2,  // has no text
};

typedef struct {
  uint32_t kind;     // TANDEM_TOKEN_*
  TandemView first;  // its bytes as the first token of a text
  TandemView later;  // its bytes after other tokens; of a special token, its name
} TandemToken;

// `json` is the text of a tokenizer.json. Null on failure. Truncation and padding that the file
// asks for are switched off: they would silently change a prompt.
TandemTokenizer* tandem_tokenizer_new(const uint8_t* json, size_t size, TandemBuffer* error);
void tandem_tokenizer_free(TandemTokenizer* tokenizer);

// The largest id + 1.
uint32_t tandem_tokenizer_vocabulary_size(const TandemTokenizer* tokenizer);

TandemToken tandem_tokenizer_token(const TandemTokenizer* tokenizer, uint32_t id);

// True where bytes are tokens of their own (byte fallback): each byte that is part of no character
// then becomes one U+FFFD. False: each longest beginning of a character does, as Unicode
// recommends.
bool tandem_tokenizer_replaces_each_byte(const TandemTokenizer* tokenizer);

// parse_special_tokens: the name of a special token within the text becomes that token. Else it is
// encoded as other text is, or is an error where the tokenizer cannot do that.
bool tandem_tokenizer_encode(const TandemTokenizer* tokenizer, const uint8_t* text, size_t size,
                             bool add_special_tokens, bool parse_special_tokens, TandemIds* ids,
                             TandemBuffer* error);

// What the tokenizers crate itself makes of ids, special tokens left out and unknown ids skipped.
// For tests: the text that Tandem shows is made of tandem_tokenizer_token's bytes.
bool tandem_tokenizer_decode(const TandemTokenizer* tokenizer, const uint32_t* ids, size_t count,
                             TandemBuffer* text, TandemBuffer* error);

typedef struct TandemChatTemplate TandemChatTemplate;

// JSON, borrowed for the call.
typedef struct {
  const uint8_t* messages;
  size_t messages_size;
  const uint8_t* tools;  // empty: none
  size_t tools_size;
  const uint8_t* arguments;  // empty: none
  size_t arguments_size;
  int64_t now;  // seconds since 1970, for templates that print the date
  bool add_generation_prompt;
} TandemChatInput;

// From the text of a tokenizer_config.json, and from JSON as its "chat_template" (a text, or a list
// of {"name", "template"}), which goes before what the former has; each possibly empty. Null in
// *chat_template where neither has a template. *missing: what the templates use and the engine
// lacks, separated by commas.
bool tandem_chat_template_new(const TandemTokenizer* tokenizer, const uint8_t* config,
                              size_t config_size, const uint8_t* templates, size_t templates_size,
                              TandemChatTemplate** chat_template, TandemBuffer* missing,
                              TandemBuffer* error);
void tandem_chat_template_free(TandemChatTemplate* chat_template);

// With the tokenizer that it was made with. From any number of threads at once. *of_template: the
// error is that the template uses what the engine lacks.
bool tandem_chat_template_apply(const TandemChatTemplate* chat_template,
                                const TandemTokenizer* tokenizer, const TandemChatInput* input,
                                TandemBuffer* text, TandemIds* ids, bool* of_template,
                                TandemBuffer* error);

void tandem_buffer_free(TandemBuffer buffer);
void tandem_ids_free(TandemIds ids);

#ifdef __cplusplus
}  // extern "C"
#endif
