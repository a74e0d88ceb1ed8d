/* Makes a report, with trainrun::c only. */
#include <train/train_c.h>

int main(void) { return trainrun_report("{\"loss\": 0.5}"); }
