// Tokens and texts as `tandem tokenize` prints them.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "tandem/v1/generation.pb.h"

namespace tandem::client {

// A line per token: place, id, and what it stands for (QuotedToken). `reply` has the bytes of
// tokens.
std::string TokenTable(const v1::TokenizeReply& reply);

// "1,2,3", as the flags of other commands take them.
std::string TokenIdList(const v1::TokenizeReply& reply);

// {"version": 1, "count", "context_length", "tokens": [{"id", "text", "bytes"}, …]} on one line.
// The text of a token that is part of a character has U+FFFD; "bytes" has numbers.
std::string TokenJson(const v1::TokenizeReply& reply);

// {"version": 1, "text": …}
std::string TextJson(const v1::DetokenizeReply& reply);

}  // namespace tandem::client
