#include "orchestrator/openai/sum_last.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <vector>

namespace tandem::orchestrator {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void Add(const Message& from, Message& to);

// Elements are known by their first field, a cause or a name.
void AddByName(const FieldDescriptor& field, const Message& from, Message& to) {
  const Reflection& reflection = *from.GetReflection();
  const FieldDescriptor& name = *field.message_type()->field(0);
  for (int i = 0; i < reflection.FieldSize(from, &field); ++i) {
    const Message& one = reflection.GetRepeatedMessage(from, &field, i);
    Message* same = nullptr;
    for (int j = 0; j < reflection.FieldSize(to, &field); ++j) {
      Message* other = reflection.MutableRepeatedMessage(&to, &field, j);
      if (other->GetReflection()->GetString(*other, &name) ==
          one.GetReflection()->GetString(one, &name)) {
        same = other;
      }
    }
    if (same == nullptr) {
      reflection.AddMessage(&to, &field)->CopyFrom(one);
    } else {
      Add(one, *same);
    }
  }
}

void AddHistogram(const FieldDescriptor& field, const Message& from, Message& to) {
  const Reflection& reflection = *from.GetReflection();
  for (int i = 0; i < reflection.FieldSize(from, &field); ++i) {
    const uint32_t count = reflection.GetRepeatedUInt32(from, &field, i);
    if (i == reflection.FieldSize(to, &field)) {
      reflection.AddUInt32(&to, &field, count);
    } else {
      reflection.SetRepeatedUInt32(&to, &field, i,
                                   reflection.GetRepeatedUInt32(to, &field, i) + count);
    }
  }
}

// Of a number that may be absent, an estimate, the last one stands.
void AddNumber(const FieldDescriptor& field, const Message& from, Message& to) {
  const Reflection& reflection = *from.GetReflection();
  const bool sums = !field.has_presence();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(
          &to, &field,
          (sums ? reflection.GetUInt32(to, &field) : 0) + reflection.GetUInt32(from, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(
          &to, &field,
          (sums ? reflection.GetUInt64(to, &field) : 0) + reflection.GetUInt64(from, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&to, &field, reflection.GetDouble(from, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(&to, &field, reflection.GetEnumValue(from, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&to, &field, reflection.GetBool(from, &field));
    default:
      return;
  }
}

void Add(const Message& from, Message& to) {
  const Reflection& reflection = *from.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(from, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field->is_repeated()) {
      is_message ? AddByName(*field, from, to) : AddHistogram(*field, from, to);
    } else if (is_message) {
      Add(reflection.GetMessage(from, field), *reflection.MutableMessage(&to, field));
    } else {
      AddNumber(*field, from, to);
    }
  }
}

}  // namespace

void AddLast(const v1::Last& last, v1::Last& sum) {
  const v1::Timing before = sum.timing();
  Add(last.usage(), *sum.mutable_usage());
  Add(last.speculation(), *sum.mutable_speculation());
  v1::Timing& timing = *sum.mutable_timing();
  Add(last.timing(), timing);
  timing.set_total_us(std::max(before.total_us(), last.timing().total_us()));
  timing.set_first_token_us(std::max(before.first_token_us(), last.timing().first_token_us()));
  timing.set_admission_us(std::max(before.admission_us(), last.timing().admission_us()));
}

}  // namespace tandem::orchestrator
