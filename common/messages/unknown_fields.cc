#include "common/messages/unknown_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tandem::messages {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kFirstIgnorable = 1000;  // generation.proto, the conventions
constexpr size_t kMaxIgnored = 8;      // more are not told

// What of a message type can hide something unknown.
struct Plan {
  struct Part {
    const FieldDescriptor* field;
    const Plan* plan;  // of the message in it
  };
  const Reflection* reflection = nullptr;
  std::vector<Part> messages;
  std::vector<const FieldDescriptor*> enums;
};

class Plans {
 public:
  const Plan& Of(const Message& message) {
    std::unique_ptr<Plan>& slot = plans_[message.GetDescriptor()];
    if (slot == nullptr) {
      slot = std::make_unique<Plan>();
      Plan* plan = slot.get();  // `slot` may move while the parts are added
      plan->reflection = message.GetReflection();
      Fill(message, *plan);
    }
    return *plans_[message.GetDescriptor()];
  }

 private:
  void Fill(const Message& message, Plan& plan) {
    const Descriptor& type = *message.GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor* field = type.field(i);
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const Message* part =
            plan.reflection->GetMessageFactory()->GetPrototype(field->message_type());
        plan.messages.push_back({field, &Of(*part)});
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
        plan.enums.push_back(field);
      }
    }
  }

  std::unordered_map<const Descriptor*, std::unique_ptr<Plan>> plans_;
};

struct Finding {
  std::string type;  // of the message that holds it
  std::string path;  // from the outermost message to it; built while returning
  std::string what;
};

std::optional<Finding> FindEnum(const Message& message, const Plan& plan) {
  for (const FieldDescriptor* field : plan.enums) {
    const EnumDescriptor& type = *field->enum_type();
    const int count = field->is_repeated()
                          ? plan.reflection->FieldSize(message, field)
                          : (plan.reflection->GetEnumValue(message, field) != 0 ? 1 : 0);
    for (int i = 0; i < count; ++i) {
      const int value = field->is_repeated()
                            ? plan.reflection->GetRepeatedEnumValue(message, field, i)
                            : plan.reflection->GetEnumValue(message, field);
      if (type.FindValueByNumber(value) != nullptr) continue;
      return Finding{message.GetTypeName(), "",
                     absl::StrCat("value ", value, " of enum ", type.full_name(), " in field ",
                                  field->number(), " (", field->name(), ")")};
    }
  }
  return std::nullopt;
}

void Note(std::string field, std::vector<std::string>& to) {
  if (std::find(to.begin(), to.end(), field) == to.end()) to.push_back(std::move(field));
}

// `ignored`: takes up the unknown fields that need not be refused; null: there are none.
std::optional<Finding> FindHere(const Message& message, const Plan& plan,
                                std::vector<std::string>* ignored) {
  const auto& unknown = plan.reflection->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const int number = unknown.field(i).number();
    if (ignored == nullptr || number < kFirstIgnorable) {
      return Finding{message.GetTypeName(), "", absl::StrCat("field number ", number)};
    }
    if (ignored->size() < kMaxIgnored) {
      Note(absl::StrCat(message.GetDescriptor()->name(), ".", number), *ignored);
    }
  }
  if (plan.enums.empty()) return std::nullopt;
  return FindEnum(message, plan);
}

std::optional<Finding> Find(const Message& message, const Plan& plan,
                            std::vector<std::string>* ignored) {
  if (auto finding = FindHere(message, plan, ignored)) return finding;
  for (const Plan::Part& part : plan.messages) {
    const FieldDescriptor* field = part.field;
    if (!field->is_repeated()) {
      if (!plan.reflection->HasField(message, field)) continue;
      if (auto finding = Find(plan.reflection->GetMessage(message, field), *part.plan, ignored)) {
        finding->path =
            absl::StrCat(field->name(), finding->path.empty() ? "" : ".", finding->path);
        return finding;
      }
      continue;
    }
    const int count = plan.reflection->FieldSize(message, field);
    for (int i = 0; i < count; ++i) {
      const Message& each = plan.reflection->GetRepeatedMessage(message, field, i);
      if (auto finding = Find(each, *part.plan, ignored)) {
        finding->path = absl::StrCat(field->name(), "[", i, "]", finding->path.empty() ? "" : ".",
                                     finding->path);
        return finding;
      }
    }
  }
  return std::nullopt;
}

const Plan& PlanOf(const Message& message) {
  thread_local Plans plans;
  return plans.Of(message);
}

absl::Status ToStatus(const std::optional<Finding>& finding, const Message& message) {
  if (!finding.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      message.GetTypeName(), finding->path.empty() ? "" : " at ", finding->path, ": ",
      finding->type, " has ", finding->what,
      ", which this service does not know: it is older than its peer; do not use that option, or "
      "update the service"));
}

}  // namespace

absl::Status RefuseUnknown(const Message& message) {
  return ToStatus(Find(message, PlanOf(message), nullptr), message);
}

absl::Status RefuseUnknownOfClient(const Message& message, std::vector<std::string>& ignored) {
  return ToStatus(Find(message, PlanOf(message), &ignored), message);
}

absl::Status RefuseUnknownHere(const Message& message) {
  return ToStatus(FindHere(message, PlanOf(message), nullptr), message);
}

}  // namespace tandem::messages
