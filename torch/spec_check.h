// Which specifications of a decoder LibTorch's step computes.
#pragma once

#include "absl/status/status.h"
#include "model/spec/decoder_spec.h"

namespace tandem::torch {

// INVALID_ARGUMENT: one message with every value that the step does not compute, as
// DecoderSpec::Canonical() spells it. A field that is added to the specification shows there where
// it is not at its default, so it is refused by its name until the step reads it.
absl::Status CheckSpec(const model::DecoderSpec& spec);

}  // namespace tandem::torch
