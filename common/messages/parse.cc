#include "common/messages/parse.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/strings/str_cat.h"

namespace tandem::messages {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::internal::WireFormatLite;

constexpr int kMaxDepth = 100;        // as Protobuf's own
constexpr size_t kAllocation = 32;    // what an allocation and the pointer to it take besides
constexpr size_t kUnknownField = 64;  // with what its list grows by
constexpr size_t kNeverMuch = 1024;   // bytes that cannot become much, whatever they are
constexpr size_t kElementBytes = 16;  // of the largest scalar, in a list that doubles

// An empty message of this type; `type` may be filled.
const Message& Empty(const Message& type) {
  return *type.GetReflection()->GetMessageFactory()->GetPrototype(type.GetDescriptor());
}

// Walks through the fields of a message and those in it.
class Scan {
 public:
  explicit Scan(absl::string_view all) : all_(all) {}

  // `empty`: as Empty's; `empty_bytes`: what it takes.
  absl::Status Of(absl::string_view bytes, const Message& empty, size_t empty_bytes, int depth) {
    const Message& type = empty;
    if (depth > kMaxDepth) return Broken(bytes, type, "messages lie too deep in each other");
    if (absl::Status status = Charge(empty_bytes + kAllocation); !status.ok()) return status;
    while (!bytes.empty()) {
      const absl::string_view here = bytes;
      const std::optional<uint64_t> tag = Varint(bytes);
      if (!tag.has_value() || *tag > UINT32_MAX || *tag >> 3 == 0) {
        return Broken(here, type, "there is no field");
      }
      const int number = static_cast<int>(*tag >> 3);
      const FieldDescriptor* field = type.GetDescriptor()->FindFieldByNumber(number);
      if (absl::Status status =
              Value(static_cast<int>(*tag & 7), number, field, type, depth, here, bytes);
          !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

  size_t bytes() const { return used_; }

 private:
  // `here`: from the field's tag on. `bytes`: from its value on; what is left after it.
  absl::Status Value(int wire_type, int number, const FieldDescriptor* field, const Message& type,
                     int depth, absl::string_view here, absl::string_view& bytes) {
    const auto named = [&](absl::string_view what) {
      return Broken(here, type,
                    absl::StrCat("field ", number, field == nullptr ? "" : ", ",
                                 field == nullptr ? "" : field->name(), ", ", what));
    };
    absl::string_view content;
    switch (wire_type) {
      case WireFormatLite::WIRETYPE_VARINT:
        if (!Varint(bytes).has_value()) return named("has a number that does not end");
        break;
      case WireFormatLite::WIRETYPE_FIXED32:
      case WireFormatLite::WIRETYPE_FIXED64: {
        const size_t size = wire_type == WireFormatLite::WIRETYPE_FIXED32 ? 4 : 8;
        if (bytes.size() < size) return named("is cut off");
        bytes.remove_prefix(size);
        break;
      }
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
        const std::optional<uint64_t> size = Varint(bytes);
        if (!size.has_value()) return named("has a length that does not end");
        if (*size > bytes.size()) {
          return named(
              absl::StrCat("says that it has ", *size, " bytes, and ", bytes.size(), " are left"));
        }
        content = bytes.substr(0, *size);
        bytes.remove_prefix(*size);
        break;
      }
      // Of something unknown: what is in it counts as if it were here, and Protobuf checks how they
      // nest.
      case WireFormatLite::WIRETYPE_START_GROUP:
      case WireFormatLite::WIRETYPE_END_GROUP:
        break;
      default:
        return named("has a kind that there is not");
    }
    return Count(wire_type, field, content, type, depth);
  }

  // What a value takes.
  absl::Status Count(int wire_type, const FieldDescriptor* field, absl::string_view content,
                     const Message& type, int depth) {
    const bool delimited = wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (field == nullptr || !Fits(*field, wire_type)) {
      return Charge(kUnknownField + content.size());
    }
    Facts& facts = FactsOf(field);
    if (field->is_repeated() && ++facts.entries > max_entries_) {
      max_entries_ = facts.entries;
      largest_field_ = field;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (facts.empty == nullptr) {
          facts.empty =
              type.GetReflection()->GetMessageFactory()->GetPrototype(field->message_type());
          facts.empty_bytes = facts.empty->SpaceUsedLong();
        }
        return Of(content, *facts.empty, facts.empty_bytes, depth + 1);
      case FieldDescriptor::CPPTYPE_STRING:
        return Charge(sizeof(std::string) + kAllocation + content.size());
      default:
        break;
    }
    if (!delimited) return Charge(field->is_repeated() ? kElementBytes : 0);
    return Charge(PackedBytes(*field, content.size()));
  }

  // What is known of a field that came before.
  struct Facts {
    size_t entries = 0;
    const Message* empty = nullptr;  // of a message: without anything in it
    size_t empty_bytes = 0;
  };

  // One field comes again and again in messages that are large.
  Facts& FactsOf(const FieldDescriptor* field) {
    if (field != last_) {
      last_ = field;
      last_facts_ = &facts_[field];
    }
    return *last_facts_;
  }

  // Whether Protobuf takes it for the field, and not for an unknown one.
  static bool Fits(const FieldDescriptor& field, int wire_type) {
    if (wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED && field.is_packable()) return true;
    const auto type = static_cast<WireFormatLite::FieldType>(field.type());
    return wire_type == WireFormatLite::WireTypeForFieldType(type);
  }

  // A list of `bytes` bytes: numbers that are written out are as long in memory, others may be of
  // one byte each. A list doubles when it grows.
  static size_t PackedBytes(const FieldDescriptor& field, size_t bytes) {
    switch (field.type()) {
      case FieldDescriptor::TYPE_FIXED32:
      case FieldDescriptor::TYPE_FIXED64:
      case FieldDescriptor::TYPE_SFIXED32:
      case FieldDescriptor::TYPE_SFIXED64:
      case FieldDescriptor::TYPE_FLOAT:
      case FieldDescriptor::TYPE_DOUBLE:
      case FieldDescriptor::TYPE_BOOL:
        return 2 * bytes;
      case FieldDescriptor::TYPE_INT64:
      case FieldDescriptor::TYPE_UINT64:
      case FieldDescriptor::TYPE_SINT64:
        return 2 * bytes * sizeof(uint64_t);
      default:
        return 2 * bytes * sizeof(uint32_t);
    }
  }

  absl::Status Charge(size_t bytes) {
    used_ += bytes;
    if (used_ <= kMaxParsedBytes) return absl::OkStatus();
    std::string most;
    if (largest_field_ != nullptr) {
      most = absl::StrCat("; ", largest_field_->full_name(), " has ", max_entries_,
                          " entries or more");
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the message has ", all_.size(), " bytes and would take more than ",
                     kMaxParsedBytes, " in memory, which is the most", most));
  }

  absl::Status Broken(absl::string_view at, const Message& type, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "the bytes are not a message that this service knows: at byte ", at.data() - all_.data(),
        " of ", all_.size(), ", in ", type.GetTypeName(), ": ", what));
  }

  static std::optional<uint64_t> Varint(absl::string_view& bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
      const auto byte = static_cast<uint8_t>(bytes[i]);
      value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) {
        bytes.remove_prefix(i + 1);
        return value;
      }
    }
    return std::nullopt;
  }

  const absl::string_view all_;
  size_t used_ = 0;
  std::unordered_map<const FieldDescriptor*, Facts> facts_;
  const FieldDescriptor* last_ = nullptr;
  Facts* last_facts_ = nullptr;
  size_t max_entries_ = 0;
  const FieldDescriptor* largest_field_ = nullptr;
};

}  // namespace

absl::StatusOr<size_t> ParsedBytes(absl::string_view bytes, const Message& type) {
  Scan scan(bytes);
  const Message& empty = Empty(type);
  absl::Status status = scan.Of(bytes, empty, empty.SpaceUsedLong(), 1);
  if (!status.ok()) return status;
  return scan.bytes();
}

absl::Status Parse(absl::string_view bytes, Message& message) {
  if (bytes.size() > kNeverMuch) {
    if (auto parsed = ParsedBytes(bytes, message); !parsed.ok()) return parsed.status();
  }
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
  if (auto parsed = ParsedBytes(bytes, message); !parsed.ok()) return parsed.status();
  return absl::InvalidArgumentError(
      absl::StrCat("the bytes are no ", message.GetTypeName(),
                   ": a text in it is not UTF-8, or a group does not end"));
}

}  // namespace tandem::messages
