#include "common/base/json.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace tandem::base {
namespace {

TEST(JsonValueTest, EachTypeIsItselfAndNoOther) {
  const auto json = JsonValue::Parse(R"({"b": true, "i": -3, "u": 7, "x": 0.5, "s": "a", "n": null,
                                         "list": [1, 2], "object": {"k": 1}})");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["b"].Bool(), true);
  EXPECT_EQ((*json)["i"].Integer(), -3);
  EXPECT_EQ((*json)["i"].Unsigned(), std::nullopt);
  EXPECT_EQ((*json)["u"].Unsigned(), 7u);
  EXPECT_EQ((*json)["x"].Number(), 0.5);
  EXPECT_EQ((*json)["x"].Integer(), std::nullopt);
  EXPECT_EQ((*json)["s"].String(), "a");
  EXPECT_EQ((*json)["s"].Bool(), std::nullopt);
  EXPECT_EQ((*json)["b"].Number(), std::nullopt);
  EXPECT_TRUE((*json)["n"].IsNull());
  EXPECT_TRUE(json->Has("n"));
  EXPECT_FALSE(json->Has("absent"));
  EXPECT_TRUE((*json)["absent"]["deeper"][3].IsNull());
  EXPECT_EQ((*json)["list"].Elements().at(1).Integer(), 2);
  EXPECT_EQ((*json)["list"].size(), 2u);
  EXPECT_EQ((*json)["object"].Members().at("k").Integer(), 1);
}

TEST(JsonValueTest, IntegersBeyondTheirTypeAreAbsent) {
  const auto json = JsonValue::Parse("[18446744073709551615, 18446744073709551616, -1]");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)[0].Unsigned(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ((*json)[0].Integer(), std::nullopt);
  EXPECT_EQ((*json)[1].Unsigned(), std::nullopt);
  EXPECT_EQ((*json)[2].Integer(), -1);
}

TEST(JsonValueTest, APartOutlivesItsDocument) {
  JsonValue part;
  {
    const auto json = JsonValue::Parse(R"({"a": {"b": "text"}})");
    ASSERT_TRUE(json.ok()) << json.status();
    part = (*json)["a"];
  }
  EXPECT_EQ(part["b"].String(), "text");
}

TEST(JsonValueTest, WhatIsNoJsonAndWhatIsTooDeepAreErrors) {
  EXPECT_EQ(JsonValue::Parse("{\"a\": }").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(JsonValue::Parse("").status().code(), absl::StatusCode::kInvalidArgument);
  const absl::string_view deep = "[[[[[[[[[]]]]]]]]]";
  EXPECT_TRUE(JsonValue::Parse(deep, 9).ok());
  EXPECT_EQ(JsonValue::Parse(deep, 7).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(JsonValueTest, MembersStandAsTheyWereWritten) {
  std::string wide;
  for (int i = 1000; i > 0; --i) absl::StrAppend(&wide, ",\"k", i, "\":{\"b\":", i, ",\"a\":[]}");
  const std::string text = absl::StrCat("{\"z\":1", wide, ",\"a\":null}");
  const auto value = JsonValue::Parse(text, 10);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->Dump(), text);
  for (int i = 1; i <= 1000; ++i) {
    EXPECT_EQ((*value)[absl::StrCat("k", i)]["b"].Integer(), i);
  }
  EXPECT_FALSE(value->Has("k0"));
  // A name that comes again keeps its place.
  EXPECT_EQ(JsonValue::Parse(R"({"b":1,"a":2,"b":3})")->Dump(), R"({"b":3,"a":2})");
}

TEST(RepeatedJsonNameTest, IsFoundWithinOneObjectAlone) {
  for (const char* text : {R"({"a": 1, "b": 2, "a": 1})", R"({"x": [{"a": {"a": 1}, "a": 2}]})",
                           R"({"a": 1, "\u0061": null})"}) {
    EXPECT_EQ(RepeatedJsonName(text), "a") << text;
  }
  for (const char* text : {"", "{", "[1]", R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})",
                           R"({"a": "a", "A": "\"a\": 1"})"}) {
    EXPECT_EQ(RepeatedJsonName(text), std::nullopt) << text;
  }
}

TEST(JsonTextTest, IsReadBackAsItWasWritten) {
  JsonObject object = {
      {"z", 1}, {"a", "quote \" and line\n"}, {"list", JsonText::Array(std::string("ab"))}};
  object.Set("x", 0.1);
  object.Set("z", true);  // keeps its place
  object.Set("none", std::optional<double>());
  object.Set("nan", std::numeric_limits<double>::quiet_NaN());
  object.Set("bytes", std::string("\xFF"));
  EXPECT_EQ(object.text(),
            "{\"z\":true,\"a\":\"quote \\\" and line\\n\",\"list\":[97,98],\"x\":0.1,\"none\":null,"
            "\"nan\":null,\"bytes\":\"\xEF\xBF\xBD\"}");
  EXPECT_TRUE(JsonValue::Parse(object.text()).ok());
}

}  // namespace
}  // namespace tandem::base
