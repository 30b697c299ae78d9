/* What the records and tables of a file plan must be like, one by one. */
#ifndef TRACEKIT_FILES_RULES_H
#define TRACEKIT_FILES_RULES_H

#include "files/plan.h"

/* Return what is wrong with an entry, NULL if nothing is. The header's counts must hold. */
const char *rules_file(const struct plan *plan, uint64_t name_bytes, uint32_t number);
const char *rules_step(const struct plan_step *step);
const char *rules_record(const struct plan *plan, const struct plan_thread *thread,
                         uint64_t number);

#endif
