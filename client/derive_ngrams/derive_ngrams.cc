#include "client/derive_ngrams/derive_ngrams.h"

#include "client/common/model_program.h"

namespace tandem::client {

int RunDeriveNgrams(absl::Span<const std::string> args) {
  return RunModelProgram("derive-ngrams", args);
}

}  // namespace tandem::client
