// What passes of a model cost, measured before anybody asks for one.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/scheduling/cost_curve.h"
#include "target_service/engine/engine.h"

namespace tandem::target_service {

// Has the engine probe passes of 1, 2, 4, … rows up to its max_rows, each several times, and
// tells the curve the shortest time. Before that comes a pass of one row that does not count,
// because the first one of a process takes many times as long as the others. Ends about `time`
// after it: a point is begun only where it should fit, but for the very first, which is measured
// twice at least. Where the engine has little room the largest points are left out. On the device's
// thread, or before there is one. An error of the engine is logged and returned, and ends it.
absl::Status MeasureCosts(Engine& engine, const concurrency::Clock& clock, absl::Duration time,
                          scheduling::CostCurve& curve);

}  // namespace tandem::target_service
