#include "client/tokenize/tokens.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/common/token_text.h"
#include "common/base/json.h"

namespace tandem::client {
namespace {

constexpr int kTokensVersion = 1;

}  // namespace

std::string TokenTable(const v1::TokenizeReply& reply) {
  uint32_t largest = 0;
  for (const uint32_t id : reply.token_ids()) largest = std::max(largest, id);
  const int places = static_cast<int>(absl::StrCat(reply.token_ids_size()).size());
  const int digits = static_cast<int>(absl::StrCat(largest).size());
  std::string text;
  for (int i = 0; i < reply.token_ids_size(); ++i) {
    absl::StrAppendFormat(&text, "%*d  %*d  %s\n", places, i, digits, reply.token_ids(i),
                          QuotedToken(reply.token_bytes(i)));
  }
  return text;
}

std::string TokenIdList(const v1::TokenizeReply& reply) {
  return absl::StrJoin(reply.token_ids(), ",");
}

std::string TokenJson(const v1::TokenizeReply& reply) {
  std::vector<base::JsonText> tokens;
  tokens.reserve(static_cast<size_t>(reply.token_ids_size()));
  for (int i = 0; i < reply.token_ids_size(); ++i) {
    tokens.emplace_back(base::JsonObject({{"id", reply.token_ids(i)},
                                          {"text", reply.token_bytes(i)},
                                          {"bytes", BytesJson(reply.token_bytes(i))}}));
  }
  return base::JsonObject({{"version", kTokensVersion},
                           {"count", reply.token_ids_size()},
                           {"context_length", reply.context_length()},
                           {"tokens", tokens}})
      .text();
}

std::string TextJson(const v1::DetokenizeReply& reply) {
  return base::JsonObject({{"version", kTokensVersion}, {"text", reply.text()}}).text();
}

}  // namespace tandem::client
