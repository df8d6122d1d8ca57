// The members of a JSON object, read by name. The first thing that is wrong is kept, and what
// nobody has asked for is wrong as well: an option is never ignored in silence.
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

// Names are the client's own: errors show so many bytes of one.
inline constexpr size_t kMaxShownName = 64;

// Not thread-safe. A member that is null counts as one that is not there.
class Fields {
 public:
  // `object` is an object. `prefix`: what its members' names begin with in errors, such as
  // "tandem.".
  explicit Fields(const base::JsonValue& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  // Absent: it is not there, or is wrong.
  std::optional<bool> Bool(absl::string_view name);
  std::optional<double> Number(absl::string_view name);
  std::optional<uint64_t> Unsigned(absl::string_view name, uint64_t min, uint64_t max);
  std::optional<std::string> Text(absl::string_view name);
  std::optional<std::vector<uint32_t>> Ids(absl::string_view name);
  std::optional<base::JsonValue> Object(absl::string_view name);
  std::optional<base::JsonValue> Any(absl::string_view name);

  // Members that may be there and do nothing.
  void Inert(std::initializer_list<absl::string_view> names);
  // Members that are not served. `otherwise` says what to do; may be empty.
  void Refuse(std::initializer_list<absl::string_view> names, absl::string_view otherwise = "");
  // A switch that may be there with the one value that is served.
  void Only(absl::string_view name, bool value);

  // Keeps "NAME " + `what`, unless something was wrong before.
  void Fail(absl::string_view name, absl::string_view what);
  // As Fail, for a member that is not there: a name that nobody has asked for comes before it,
  // because it may be a wrong spelling of this one.
  void Missing(absl::string_view name, absl::string_view what);
  void Keep(absl::Status status);

  bool ok() const { return status_.ok(); }
  // Whoever writes a member of `other` here is told where it belongs.
  void Suggest(const Fields& other);
  // What was wrong first; else a member that nobody has asked for; else one that is missing.
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
