#include "common/base/json.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace tandem::base {
namespace {

// An object in the order of the document. nlohmann::ordered_map looks at every member for each
// name, so a wide object would take quadratic time: it has an index besides.
template <class Key, class T, class Compare, class Allocator>
class IndexedObject : public nlohmann::ordered_map<Key, T, Compare, Allocator> {
  using Base = nlohmann::ordered_map<Key, T, Compare, Allocator>;

 public:
  using Base::Base;
  using typename Base::const_iterator;
  using typename Base::iterator;

  iterator find(const Key& key) { return this->begin() + Place(key); }
  const_iterator find(const Key& key) const { return this->begin() + Place(key); }
  T& operator[](const Key& key) {
    const size_t place = Place(key);
    if (place == this->size()) {
      this->emplace_back(key, T{});
      if (place >= kUnindexed) places_.emplace(key, place);
    }
    return this->data()[place].second;
  }

 private:
  static constexpr size_t kUnindexed = 16;  // members that are as fast to look through

  // Of the member, or the size where there is none.
  size_t Place(const Key& key) const {
    size_t place = 0;
    while (place < std::min(this->size(), kUnindexed) && this->data()[place].first != key) ++place;
    if (place < kUnindexed) return place;
    const auto found = places_.find(key);
    return found == places_.end() ? this->size() : found->second;
  }

  absl::flat_hash_map<Key, size_t> places_;
};

using Node = nlohmann::basic_json<IndexedObject>;

const Node& NodeOf(const std::shared_ptr<const void>& node) {
  static const Node* const kNull = new Node();
  return node == nullptr ? *kNull : *static_cast<const Node*>(node.get());
}

std::string Quoted(absl::string_view text) {
  return Node(std::string(text)).dump(-1, ' ', false, Node::error_handler_t::replace);
}

// Looks for a name that an object has twice. It keeps the names of the objects that are open.
class RepeatedNames final : public nlohmann::json_sax<Node> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Node::binary_t&) override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const Node::exception&) override { return false; }

  bool start_object(size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    if (open_.back().insert(name).second) return true;
    repeated_ = std::move(name);
    return false;
  }

  const std::optional<std::string>& repeated() const { return repeated_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::optional<std::string> repeated_;
};

}  // namespace

absl::StatusOr<JsonValue> JsonValue::Parse(absl::string_view text, std::optional<int> max_depth) {
  bool too_deep = false;
  Node::parser_callback_t watch;  // none without a limit: it makes wide objects slow
  if (max_depth.has_value()) {
    watch = [&](int depth, Node::parse_event_t, Node&) {
      too_deep = too_deep || depth > *max_depth;
      return !too_deep;
    };
  }
  const auto node = std::make_shared<const Node>(
      Node::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false));
  if (too_deep) {
    return absl::OutOfRangeError(absl::StrCat("nested more than ", *max_depth, " levels deep"));
  }
  if (node->is_discarded()) return absl::InvalidArgumentError("not JSON");
  return JsonValue(node);
}

std::optional<std::string> RepeatedJsonName(absl::string_view text) {
  RepeatedNames names;
  Node::sax_parse(text.begin(), text.end(), &names);
  return names.repeated();
}

JsonValue JsonValue::Part(const void* node) const {
  return JsonValue(std::shared_ptr<const void>(node_, node));
}

bool JsonValue::IsNull() const { return NodeOf(node_).is_null(); }
bool JsonValue::IsArray() const { return NodeOf(node_).is_array(); }
bool JsonValue::IsObject() const { return NodeOf(node_).is_object(); }

std::optional<bool> JsonValue::Bool() const {
  const Node& node = NodeOf(node_);
  return node.is_boolean() ? std::optional(node.get<bool>()) : std::nullopt;
}

std::optional<double> JsonValue::Number() const {
  const Node& node = NodeOf(node_);
  return node.is_number() ? std::optional(node.get<double>()) : std::nullopt;
}

std::optional<int64_t> JsonValue::Integer() const {
  const Node& node = NodeOf(node_);
  if (!node.is_number_integer()) return std::nullopt;
  if (node.is_number_unsigned() && !std::in_range<int64_t>(node.get<uint64_t>())) {
    return std::nullopt;
  }
  return node.get<int64_t>();
}

std::optional<uint64_t> JsonValue::Unsigned() const {
  const Node& node = NodeOf(node_);
  return node.is_number_unsigned() ? std::optional(node.get<uint64_t>()) : std::nullopt;
}

std::optional<std::string> JsonValue::String() const {
  const Node& node = NodeOf(node_);
  return node.is_string() ? std::optional(node.get<std::string>()) : std::nullopt;
}

size_t JsonValue::size() const { return IsArray() || IsObject() ? NodeOf(node_).size() : 0; }

JsonValue JsonValue::operator[](size_t index) const {
  return IsArray() && index < size() ? Part(&NodeOf(node_)[index]) : JsonValue();
}

std::vector<JsonValue> JsonValue::Elements() const {
  std::vector<JsonValue> elements;
  if (!IsArray()) return elements;
  elements.reserve(size());
  for (const Node& element : NodeOf(node_)) elements.push_back(Part(&element));
  return elements;
}

bool JsonValue::Has(absl::string_view name) const {
  return NodeOf(node_).contains(std::string(name));
}

JsonValue JsonValue::operator[](absl::string_view name) const {
  return Has(name) ? Part(&NodeOf(node_)[std::string(name)]) : JsonValue();
}

std::map<std::string, JsonValue> JsonValue::Members() const {
  std::map<std::string, JsonValue> members;
  if (!IsObject()) return members;
  for (const auto& [name, value] : NodeOf(node_).get_ref<const Node::object_t&>()) {
    members.emplace(name, Part(&value));
  }
  return members;
}

std::string JsonValue::Dump() const { return NodeOf(node_).dump(); }

JsonText::JsonText(double value) : text_(Node(value).dump()) {}

JsonText::JsonText(absl::string_view value) : text_(Quoted(value)) {}

JsonText::JsonText(const std::vector<JsonText>& elements) {
  const auto append = [](std::string* out, const JsonText& element) { *out += element.text(); };
  text_ = absl::StrCat("[", absl::StrJoin(elements, ",", append), "]");
}

JsonText::JsonText(const JsonObject& object) : text_(object.text()) {}

JsonObject::JsonObject(std::initializer_list<Member> members) {
  for (const auto& [name, value] : members) Set(name, value);
}

void JsonObject::Set(absl::string_view name, JsonText value) {
  const auto same = std::find_if(members_.begin(), members_.end(),
                                 [name](const Member& member) { return member.first == name; });
  if (same == members_.end()) {
    members_.emplace_back(name, std::move(value));
  } else {
    same->second = std::move(value);
  }
}

std::string JsonObject::text() const {
  const auto append = [](std::string* out, const Member& member) {
    absl::StrAppend(out, Quoted(member.first), ":", member.second.text());
  };
  return absl::StrCat("{", absl::StrJoin(members_, ",", append), "}");
}

}  // namespace tandem::base
