// What a target's passes take, as its orchestrator knows it.
//
// Thread safety: a pure function.
#pragma once

#include "tandem/v1/describe.pb.h"

namespace tandem::client {

// By its last report; before the first one, as it was when the orchestrator connected. Empty: it is
// unknown.
inline const google::protobuf::RepeatedPtrField<v1::CostPoint>& CostCurveOf(const v1::Peer& peer) {
  return peer.load().cost_curve().empty() ? peer.welcome().cost_curve() : peer.load().cost_curve();
}

}  // namespace tandem::client
