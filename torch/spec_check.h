// Which specifications of a decoder LibTorch's step computes.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "model/spec/decoder_spec.h"

namespace tandem::torch {

// INVALID_ARGUMENT: one message with every value that the step does not compute. What the decoder
// of model/ does not compute is refused too, because the self-check compares with it.
absl::Status CheckSpec(const model::DecoderSpec& spec);

// INVALID_ARGUMENT: the fields of a DecoderSpec::Canonical() that the step does not read. A field
// that is added to the specification shows there where it is not at its default, so it is refused
// by its name until the step reads it.
absl::Status CheckFields(absl::string_view canonical);

}  // namespace tandem::torch
