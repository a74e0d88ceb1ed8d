// Tells what the time of a run's workers was used for: in a line for people, and as members of the
// files that programs read. Pure.
#pragma once

#include <string>

#include "lib/model/time_accounts.h"

namespace train {

class JsonWriter;

/// Return whether the time tells where it went: any use is booked that only a program with the SDK
/// has, or nothing is unknown.
bool says_anything(const TimeAccounts& time);
/// Return the goodput and the larger accounts in percent, the largest first: "87 % (data 6,
/// checkpoint 3)". Empty if nothing is known: nothing was booked, or the program does not use the
/// SDK.
std::string goodput_text(const TimeAccounts& time);
/// Return what to do about the largest account that has a remedy and takes more than 5 %; empty if
/// there is none, or the workers have had less than a minute together.
std::string goodput_advice(const TimeAccounts& time);
/// Put an object: the seconds of each use that has any.
void put_seconds(JsonWriter& json, const TimeAccounts& time);
/// Put the member "goodput": its ratio, from 0 to 1, and worker_seconds by use. Null if nothing was
/// booked.
void put_goodput(JsonWriter& json, const TimeAccounts& time);
/// Return the text of goodput.json (lib/storage/FORMAT.md): of an attempt, and of the run so far.
std::string goodput_json(std::uint32_t attempt, int world_size, const TimeAccounts& of_attempt,
                         const TimeAccounts& of_run, std::chrono::system_clock::time_point now);

}  // namespace train
