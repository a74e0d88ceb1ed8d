// A profile as one HTML file that needs nothing else: no network, no library. Pure.
#pragma once

#include <string>

#include "lib/profile/profile.h"
#include "lib/profile/report/hot_functions.h"

namespace train {

/// Return the page. All texts of the profile are data of its script, which shows them as text only.
/// A server that passes it on must allow it its inline script and style, and may forbid all else
/// ("sandbox allow-scripts").
std::string flame_graph_html(const Profile& profile, const ProfiledRank& whom);

}  // namespace train
