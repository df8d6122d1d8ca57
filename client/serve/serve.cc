#include "client/serve/serve.h"

#include "client/common/model_program.h"

namespace tandem::client {

int RunServe(absl::Span<const std::string> args) { return RunModelProgram("serve", args); }

}  // namespace tandem::client
