#include "common/version.h"

uint32_t tk_interface_version(void) { return TK_INTERFACE_VERSION; }
