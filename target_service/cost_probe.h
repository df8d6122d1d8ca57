// What passes of a model cost, measured before anybody asks for one.
#pragma once

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/scheduling/cost_curve.h"
#include "model/language_model.h"

namespace tandem::target_service {

// Steps scratch caches with 1, 2, 4, … rows up to model.max_rows(), all with logits as in verification,
// each several times, and tells the curve the shortest time. Ends after about `time`: a point is begun only
// where it should fit, but for the very first. Where the pool has little room the largest points are left
// out. On the device's thread, or before there is one; all caches are freed. An error of the model is
// logged, and ends it.
void MeasureCosts(model::LanguageModel& model, const concurrency::Clock& clock, absl::Duration time,
                  scheduling::CostCurve& curve);

}  // namespace tandem::target_service
