// What Describe and ListModels say, for people and for programs.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

// A line for each service with its state and load, then what each says of itself. `address` is the
// orchestrator's.
std::string DescriptionTable(absl::string_view address, const v1::DescribeReply& services,
                             const v1::ListModelsReply& models);

// {"version": 1, "address", "description": {…}, "models": […]} on one line. The last two are
// DescribeReply and the models of ListModelsReply as Protobuf writes them in JSON, with the names
// of the proto. Numbers of 64 bits are strings there.
std::string DescriptionJson(absl::string_view address, const v1::DescribeReply& services,
                            const v1::ListModelsReply& models);

}  // namespace tandem::client
