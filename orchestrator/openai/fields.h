// Reads the members of a JSON object by name. The first error is kept, and a member that was not
// read is an error, too: an option is never silently ignored.
//
//   Fields fields(object);
//   if (auto n = fields.Unsigned("n", 1, 16)) request.set_samples(*n);
//   fields.Inert({"user"});
//   TANDEM_RETURN_IF_ERROR(fields.Finish());
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/json.h"

namespace tandem::orchestrator {

// Names come from the client: errors show at most this many bytes of one.
inline constexpr size_t kMaxShownName = 64;

// Not thread-safe. A member that is null counts as missing.
class Fields {
 public:
  // `object` is an object. `prefix`: what its members' names begin with in errors, such as
  // "tandem.".
  explicit Fields(const base::JsonValue& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  // Nullopt: missing or invalid.
  std::optional<bool> Bool(absl::string_view name);
  std::optional<double> Number(absl::string_view name);
  std::optional<uint64_t> Unsigned(absl::string_view name, uint64_t min, uint64_t max);
  std::optional<std::string> Text(absl::string_view name);
  std::optional<std::vector<uint32_t>> Ids(absl::string_view name);
  std::optional<base::JsonValue> Object(absl::string_view name);
  std::optional<base::JsonValue> Any(absl::string_view name);

  // Members that are accepted and ignored.
  void Inert(std::initializer_list<absl::string_view> names);
  // Unsupported members. `otherwise` says what to do instead; may be empty.
  void Refuse(std::initializer_list<absl::string_view> names, absl::string_view otherwise = "");
  // A switch of which only one value is supported.
  void Only(absl::string_view name, bool value);

  // Keeps the error "NAME " + `what`, unless there was one before.
  void Fail(absl::string_view name, absl::string_view what);
  // As Fail, for a missing member: an unknown name is reported first, because it may be a
  // misspelling of this one.
  void Missing(absl::string_view name, absl::string_view what);
  void Keep(absl::Status status);

  bool ok() const { return status_.ok(); }
  // Members of `other` that appear here are refused with the object where they belong.
  void Suggest(const Fields& other);
  // The first error; else an unknown member; else a missing one.
  absl::Status Finish();

 private:
  const base::JsonValue object_;
  const std::string prefix_;
  std::string NearestTo(absl::string_view name) const;

  std::set<std::string, std::less<>> asked_;
  std::set<std::string, std::less<>> refused_;
  std::map<std::string, std::string> elsewhere_;  // a name, and with the prefix of its object
  absl::Status status_;
  absl::Status missing_;
};

// A list of token ids; absent: `value` is something else.
std::optional<std::vector<uint32_t>> TokenIds(const base::JsonValue& value);

}  // namespace tandem::orchestrator
