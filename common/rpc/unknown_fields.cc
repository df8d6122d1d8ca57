#include "common/rpc/unknown_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/status_macros.h"

namespace tandem::rpc {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Where a message sits in the one that was sent; made into text only when something is wrong.
struct Path {
  const Path* parent = nullptr;
  const FieldDescriptor* field = nullptr;
  int index = -1;

  std::string Text() const {
    if (field == nullptr) return "";
    std::string text = parent->Text();
    if (!text.empty()) text += '.';
    absl::StrAppend(&text, field->name());
    if (index >= 0) absl::StrAppend(&text, "[", index, "]");
    return text;
  }
};

std::string In(const Path& path) {
  const std::string text = path.Text();
  return text.empty() ? "" : absl::StrCat(" in ", text);
}

absl::Status CheckEnum(const FieldDescriptor& field, int value, const Path& path) {
  if (field.enum_type()->FindValueByNumber(value) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field.containing_type()->full_name(), In(path), ": field ", field.number(), " (", field.name(),
      ") has the value ", value, ", which this build does not know; it speaks protocol revision 1"));
}

absl::Status Check(const Message& message, const Path& path);

absl::Status CheckField(const Message& message, const Reflection& reflection,
                        const FieldDescriptor& field, const Path& path) {
  const bool repeated = field.is_repeated();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    if (!repeated) return Check(reflection.GetMessage(message, &field), {&path, &field, -1});
    const int size = reflection.FieldSize(message, &field);
    for (int i = 0; i < size; ++i) {
      TANDEM_RETURN_IF_ERROR(
          Check(reflection.GetRepeatedMessage(message, &field, i), {&path, &field, i}));
    }
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    if (!repeated) return CheckEnum(field, reflection.GetEnumValue(message, &field), path);
    const int size = reflection.FieldSize(message, &field);
    for (int i = 0; i < size; ++i) {
      TANDEM_RETURN_IF_ERROR(
          CheckEnum(field, reflection.GetRepeatedEnumValue(message, &field, i), path));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const Message& message, const Path& path) {
  const Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  const auto& descriptor = *message.GetDescriptor();
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        descriptor.full_name(), In(path), ": field number ", unknown.field(0).number(),
        " is unknown to this build, which speaks protocol revision 1; a newer peer must leave it out"));
  }
  // Not ListFields: only messages and enums can hold anything unknown, and most fields are numbers.
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
        field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM) {
      continue;
    }
    const bool present = field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                                             : reflection.HasField(message, &field);
    if (present) TANDEM_RETURN_IF_ERROR(CheckField(message, reflection, field, path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RefuseUnknown(const Message& message) { return Check(message, Path()); }

}  // namespace tandem::rpc
