#include "orchestrator/openai/json_shape.h"

#include <algorithm>

namespace tandem::orchestrator {
namespace {

constexpr size_t kValueBytes = 16;      // nlohmann::json: a type and a pointer
constexpr size_t kStringBytes = 64;     // an object of its own, at least this with the allocator's
constexpr size_t kContainerBytes = 96;  // an array or an object
constexpr size_t kMemberBytes =
    144;  // a name and a value, as their room grows, and their place in an index

}  // namespace

JsonShape ShapeOf(absl::string_view text) {
  JsonShape shape;
  shape.bytes = 2 * text.size() + kValueBytes;  // an array's room doubles as it grows
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    switch (c) {
      case '"':
        in_string = true;
        shape.bytes += kStringBytes;
        break;
      case ',':
        shape.bytes += 2 * kValueBytes;
        break;
      case ':':
        shape.bytes += kMemberBytes;
        break;
      case '[':
      case '{':
        shape.depth = std::max(shape.depth, ++depth);
        shape.bytes += kContainerBytes;
        break;
      case ']':
      case '}':
        depth -= depth > 0 ? 1 : 0;
        break;
      default:
        break;
    }
  }
  return shape;
}

}  // namespace tandem::orchestrator
