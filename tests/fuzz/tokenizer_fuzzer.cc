// Any text as tokenizer.json: refused with a message, or a tokenizer that keeps its promises. The
// parser is the tokenizers crate, which reports no coverage: this looks at our side of the bridge.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/tokenizer/detokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

void CheckTokenizer(const tokenizer::Tokenizer& tokenizer) {
  const uint32_t size = tokenizer.vocabulary_size();
  TANDEM_CHECK(tokenizer.token_hashes().size() == size);
  TANDEM_CHECK(!tokenizer.content_id().empty());
  TANDEM_CHECK(!tokenizer.IsToken(size));
  for (const char* text : {"", "ab ba", "\xc3\xa9 <s>a", "\xf0\x9f\x98\x80"}) {
    auto ids = tokenizer.Encode(text);
    if (!ids.ok()) continue;
    for (uint32_t id : *ids) TANDEM_CHECK(tokenizer.IsToken(id)) << id << " of \"" << text << "\"";
    auto whole = tokenizer.Decode(*ids);
    TANDEM_CHECK_OK(whole);
    tokenizer::IncrementalDetokenizer stream(tokenizer, {});
    std::string joined;
    for (uint32_t id : *ids) {
      auto piece = stream.Feed(id);
      TANDEM_CHECK_OK(piece);
      joined += *piece;
    }
    joined += stream.Finish();
    TANDEM_CHECK(joined == *whole) << "\"" << joined << "\" is not \"" << *whole << "\"";
  }
}

void Run(std::string_view json) {
  auto tokenizer = tokenizer::Tokenizer::FromJson(json);
  if (tokenizer.ok()) {
    CheckTokenizer(**tokenizer);
  } else {
    TANDEM_CHECK(absl::IsInvalidArgument(tokenizer.status())) << tokenizer.status();
    TANDEM_CHECK(!tokenizer.status().message().empty());
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      R"({"version":"1.0","added_tokens":[{"id":4,"content":"<s>","single_word":false,)"
      R"("lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":null,)"
      R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)"
      R"("use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel",)"
      R"("add_prefix_space":true,"trim_offsets":true,"use_regex":true},"model":{"type":"BPE",)"
      R"("dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
      R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,)"
      R"("vocab":{"a":0,"b":1,"\u0120":2,"ab":3},"merges":["a b"]}})",
      R"({"version":"1.0","added_tokens":[],"normalizer":{"type":"Prepend","prepend":"\u2581"},)"
      R"("pre_tokenizer":null,"post_processor":null,"decoder":{"type":"Sequence","decoders":[)"
      R"({"type":"Replace","pattern":{"String":"\u2581"},"content":" "},{"type":"ByteFallback"},)"
      R"({"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},)"
      R"("model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>",)"
      R"("vocab":{"<unk>":0,"<0xC3>":1,"<0xA9>":2,"\u2581":3,"a":4,"b":5},"merges":[["a","b"]]}})",
  };
}

}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  tandem::fuzz::Run({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
