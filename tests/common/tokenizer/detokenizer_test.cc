#include "common/tokenizer/detokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/tokenizer/tokenizer.h"
#include "tests/common/tokenizer/test_tokenizers.h"

namespace tandem::tokenizer {
namespace {

using ::testing::ElementsAre;

constexpr char kR[] = "\xEF\xBF\xBD";

std::vector<std::string> Pieces(const Tokenizer& tokenizer, const std::vector<uint32_t>& prompt,
                                const std::vector<uint32_t>& ids) {
  IncrementalDetokenizer detokenizer(tokenizer, prompt);
  std::vector<std::string> pieces;
  for (const uint32_t id : ids) {
    const auto piece = detokenizer.Feed(id);
    EXPECT_TRUE(piece.ok()) << piece.status();
    pieces.push_back(*piece);
  }
  pieces.push_back(detokenizer.Finish());
  return pieces;
}

std::string Joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

uint32_t Byte(int byte) { return kFirstByteToken + static_cast<uint32_t>(byte); }

// The ids of the demo tokenizer's 256 single-byte tokens, by byte.
std::vector<uint32_t> DemoBytes(const Tokenizer& demo) {
  std::vector<uint32_t> ids(256, 0);
  for (uint32_t id = 1; id < demo.vocabulary_size(); ++id) {
    const std::string_view bytes = demo.TokenBytes(id);
    if (bytes.size() == 1) ids[static_cast<uint8_t>(bytes[0])] = id;
  }
  return ids;
}

TEST(Detokenizer, HoldsACharacterBackUntilItIsWhole) {
  const auto demo = LoadDemo();
  const auto byte = DemoBytes(*demo);
  EXPECT_THAT(Pieces(*demo, {}, {byte[0xF0], byte[0x9F], byte[0x98], byte[0x80], byte['!']}),
              ElementsAre("", "", "", "😀", "!", ""));
  const auto llama = MakeTokenizer(ByteFallbackJson());
  EXPECT_THAT(Pieces(*llama, {}, {Byte(0xF0), Byte(0x9F), Byte(0x98), Byte(0x80), Byte('!')}),
              ElementsAre("", "", "", "😀", "!", ""));
}

TEST(Detokenizer, BytesThatNeverBecomeACharacter) {
  const auto demo = LoadDemo();
  const auto byte = DemoBytes(*demo);
  EXPECT_THAT(Pieces(*demo, {}, {byte[0xF0], byte[0x9F], byte['a'], byte[0x80], byte[0xC3]}),
              ElementsAre("", "", std::string(kR) + "a", kR, "", kR));
  const auto llama = MakeTokenizer(ByteFallbackJson());
  const std::string twice = std::string(kR) + kR;
  EXPECT_THAT(Pieces(*llama, {}, {Byte(0xF0), Byte(0x9F), Byte('a'), Byte(0x80), Byte(0xC3)}),
              ElementsAre("", "", twice + "a", kR, "", kR));
}

TEST(Detokenizer, ASpecialTokenDoesNotCutACharacter) {
  const auto demo = LoadDemo();
  const auto byte = DemoBytes(*demo);
  EXPECT_THAT(Pieces(*demo, {}, {byte[0xC3], 0, byte[0xA9]}), ElementsAre("", "", "é", ""));
}

TEST(Detokenizer, ThePromptSettlesTheLeadingSpace) {
  const auto llama = MakeTokenizer(ByteFallbackJson());
  const std::vector<uint32_t> hello = *llama->Encode("hello", false);
  ASSERT_EQ(hello.size(), 1u);
  EXPECT_THAT(Pieces(*llama, {}, hello), ElementsAre("hello", ""));
  EXPECT_THAT(Pieces(*llama, {1}, hello), ElementsAre("hello", ""));  // <s> has no text
  EXPECT_THAT(Pieces(*llama, {1, hello[0]}, hello), ElementsAre(" hello", ""));
  EXPECT_THAT(Pieces(*llama, {}, {hello[0], 2, hello[0]}), ElementsAre("hello", "", " hello", ""));
  EXPECT_THAT(Pieces(*llama, {}, {Byte(' '), hello[0]}), ElementsAre("", " hello", ""));
}

TEST(Detokenizer, ACharacterBegunInThePromptComesWithTheOutput) {
  const auto demo = LoadDemo();
  const auto byte = DemoBytes(*demo);
  EXPECT_THAT(Pieces(*demo, {byte['a'], byte[0xC3]}, {byte[0xA9]}), ElementsAre("é", ""));
}

TEST(Detokenizer, AnUnknownIdChangesNothing) {
  const auto demo = LoadDemo();
  const auto byte = DemoBytes(*demo);
  IncrementalDetokenizer detokenizer(*demo, {});
  EXPECT_EQ(*detokenizer.Feed(byte[0xC3]), "");
  EXPECT_EQ(detokenizer.Feed(4096).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*detokenizer.Feed(byte[0xA9]), "é");
}

TEST(Detokenizer, RandomIdsOfAByteLevelTokenizer) {
  std::mt19937 random(11);
  const auto demo = LoadDemo();
  const auto byte = DemoBytes(*demo);
  const CrateDecoder crate(ReadAll(DemoDirectory() + "/tokenizer.json"));
  for (int run = 0; run < 500; ++run) {
    std::vector<uint32_t> ids;
    for (size_t i = random() % 40; i > 0; --i) {
      // Half of them bytes from 0x80 on: parts of characters, right and wrong.
      ids.push_back(random() % 2 ? byte[0x80 + random() % 0x80] : random() % 4096);
    }
    const std::vector<std::string> pieces = Pieces(*demo, {}, ids);
    for (const std::string& piece : pieces) ASSERT_TRUE(IsUtf8(piece));
    ASSERT_EQ(Joined(pieces), crate.Decode(ids)) << ::testing::PrintToString(ids);
    ASSERT_EQ(Joined(pieces), *demo->Decode(ids));
    // Any cut into prompt and output gives the same text, but for the character that was cut.
    const size_t cut = ids.empty() ? 0 : random() % ids.size();
    const std::vector<uint32_t> prompt(ids.begin(), ids.begin() + static_cast<long>(cut));
    const std::vector<uint32_t> output(ids.begin() + static_cast<long>(cut), ids.end());
    std::vector<std::string> all = Pieces(*demo, {}, prompt);
    all.pop_back();  // what Finish would have made of a character that goes on
    ASSERT_EQ(Joined(all) + Joined(Pieces(*demo, prompt, output)), Joined(pieces));
  }
}

TEST(Detokenizer, RandomIdsOfAByteFallbackTokenizer) {
  std::mt19937 random(13);
  const auto llama = MakeTokenizer(ByteFallbackJson());
  const CrateDecoder crate(ByteFallbackJson().dump());
  for (int run = 0; run < 500; ++run) {
    std::vector<uint32_t> ids;
    std::string bytes;
    const bool whole_characters = run % 2 == 0;
    for (size_t i = random() % 40; i > 0; --i) {
      std::string character;
      AppendCodePoint(0x80 + random() % 0xD000, character);
      if (!whole_characters) character.resize(1 + random() % character.size());
      if (random() % 2) {
        for (const char c : character) ids.push_back(Byte(static_cast<uint8_t>(c)));
      } else {
        ids.push_back(kFirstByteToken + 256 + random() % 17);
      }
    }
    for (const uint32_t id : ids) bytes += llama->TokenBytes(id);
    if (!bytes.empty() && bytes[0] == ' ') bytes.erase(0, 1);
    std::string expected;
    for (std::string_view rest = bytes; !rest.empty();) {
      const size_t length = CharacterLength(rest);
      expected += length == 0 ? std::string(kR) : std::string(rest.substr(0, length));
      rest.remove_prefix(std::max<size_t>(length, 1));
    }
    const std::vector<std::string> pieces = Pieces(*llama, {}, ids);
    for (const std::string& piece : pieces) ASSERT_TRUE(IsUtf8(piece));
    ASSERT_EQ(Joined(pieces), expected) << ::testing::PrintToString(ids);
    ASSERT_EQ(*llama->Decode(ids), expected);
    if (whole_characters) {
      ASSERT_EQ(expected, crate.Decode(ids));
    }
  }
}

TEST(Detokenizer, EndlessWrongBytesComeOutAtOnce) {
  const auto demo = LoadDemo();
  const auto byte = DemoBytes(*demo);
  IncrementalDetokenizer detokenizer(*demo, {});
  // Each of these bytes could begin a character, so the one before it must come out at once.
  size_t length = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const auto piece = detokenizer.Feed(byte[0xF0]);
    ASSERT_TRUE(piece.ok());
    ASSERT_EQ(*piece, i == 0 ? "" : kR);
    length += piece->size();
  }
  EXPECT_EQ(length + detokenizer.Finish().size(), 3u * kCount);
}

}  // namespace
}  // namespace tandem::tokenizer
