// Reads JSON documents and writes JSON text. nlohmann/json is behind both. It costs seconds in each
// source that includes it, so json.cc is the only one.
//
// Thread safety: plain values. A JsonValue never changes, so threads may share one.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::base {

// A value in a document that was read. It keeps the whole document, so it may outlive the values
// around it. Copies are cheap.
class JsonValue {
 public:
  JsonValue() = default;  // null

  // INVALID_ARGUMENT: it is not JSON. OUT_OF_RANGE: it is nested deeper than `max_depth` levels. If
  // members have the same name, the last one counts.
  static absl::StatusOr<JsonValue> Parse(absl::string_view text,
                                         std::optional<int> max_depth = std::nullopt);

  bool IsNull() const;
  bool IsArray() const;
  bool IsObject() const;

  // Absent: the value is something else. An integer is a number without fraction and exponent.
  std::optional<bool> Bool() const;
  std::optional<double> Number() const;
  std::optional<int64_t> Integer() const;    // absent beyond 64 bits, too
  std::optional<uint64_t> Unsigned() const;  // likewise; an integer without a sign
  std::optional<std::string> String() const;

  // A value that is not an array has no elements, and one that is not an object has no members. An
  // element or member that is not there is null.
  size_t size() const;  // elements or members
  JsonValue operator[](size_t index) const;
  std::vector<JsonValue> Elements() const;
  bool Has(absl::string_view name) const;
  JsonValue operator[](absl::string_view name) const;
  std::map<std::string, JsonValue> Members() const;

  // On one line, members in the order of the document. Recursive: the depth must have a limit.
  std::string Dump() const;

 private:
  explicit JsonValue(std::shared_ptr<const void> node) : node_(std::move(node)) {}
  JsonValue Part(const void* node) const;

  std::shared_ptr<const void> node_;  // keeps the document; null: a null of none
};

// The first member's name that an object in this JSON text has twice; absent: there is none, or the
// text is not JSON. Parsers disagree on which of the two counts, so text of clients is refused for
// it. Takes time and memory as Parse does.
std::optional<std::string> RepeatedJsonName(absl::string_view text);

class JsonObject;

// A value as JSON text on one line. C++ values convert to it without a cast, so that members can be
// listed. In a string, bytes that are not UTF-8 become U+FFFD. A number that is absent or not
// finite becomes null.
class JsonText {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  JsonText(std::nullptr_t = nullptr) : text_("null") {}
  JsonText(std::same_as<bool> auto value) : text_(value ? "true" : "false") {}
  JsonText(std::integral auto value) requires(!std::same_as<decltype(value), bool>)
      : text_(std::to_string(value)) {}
  JsonText(double value);
  JsonText(std::optional<double> value)
      : JsonText(value.has_value() ? JsonText(*value) : nullptr) {}
  JsonText(absl::string_view value);
  JsonText(const char* value) : JsonText(absl::string_view(value)) {}
  JsonText(const std::string& value) : JsonText(absl::string_view(value)) {}
  JsonText(const std::vector<JsonText>& elements);
  JsonText(const JsonObject& object);
  // NOLINTEND(google-explicit-constructor)

  template <typename Container>
  static JsonText Array(const Container& elements) {
    return std::vector<JsonText>(elements.begin(), elements.end());
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// An object to be written. Its members stand in the order in which they were first set.
class JsonObject {
 public:
  using Member = std::pair<std::string, JsonText>;

  JsonObject(std::initializer_list<Member> members = {});
  void Set(absl::string_view name, JsonText value);

  std::string text() const;

 private:
  std::vector<Member> members_;
};

}  // namespace tandem::base
