// The routes of the JSON API below /api/v1/sweeps: functions from what is known of the sweep, and
// the query, to the answer. Calls block on the disk.
#pragma once

#include <vector>

#include "launcher/dashboard/sweeps/sweep_data.h"
#include "lib/base/json_text.h"
#include "lib/http/request.h"
#include "lib/http/response.h"

namespace train {

struct SweepRequest {
  SweepData& sweep;
  const HttpQuery& query;
};

Result<HttpResponse> answer_sweep(const SweepRequest& request);
Result<HttpResponse> answer_trials(const SweepRequest& request);
Result<HttpResponse> answer_curves(const SweepRequest& request);

/// Add the members of a SweepRow (openapi.yaml) to an open object. Without `with_duration`, leave
/// out how long a live sweep lasts, which changes all the time.
void put_sweep_row(JsonWriter& json, const SweepData& sweep, bool with_duration = true);
/// Add a TrialRow (openapi.yaml).
void put_trial_row(JsonWriter& json, const TrialRow& row);

}  // namespace train
