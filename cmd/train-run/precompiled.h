// The build precompiles this header for train-run: what most of its files include.
#pragma once

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "launcher/spec/job_spec_parser.h"
#include "lib/net/precompiled.h"
