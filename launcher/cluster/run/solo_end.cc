#include "launcher/cluster/run/solo_end.h"

#include <signal.h>

namespace train {

Outcome outcome_of(const SoloEnd& end) {
  if (!end.started) return Outcome::Failed;
  const bool well = !end.signaled && end.status == 0;
  // A SIGTERM that is meant for all processes reaches the program by itself, too.
  const bool by_term = end.asked_for && end.signaled && end.status == SIGTERM;
  if (well || end.after_our_signal || by_term) return end.asked_for.value_or(Outcome::Succeeded);
  const int interrupted = end.signaled ? SIGINT : 128 + SIGINT;  // a shell's code for it
  return end.status == interrupted ? Outcome::Interrupted : Outcome::Failed;
}

}  // namespace train
